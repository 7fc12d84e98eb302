# A link that another user planted in a sticky folder, where the report goes: it is not followed.
#@ as: root
compile end
mkdir sticky
chmod 1777 sticky
echo 'root only' > victim
$as_user ln -s "$PWD/victim" sticky/report
redhanded run --json sticky/report -- ./end
[ "$(cat victim)" = 'root only' ] || fail "the planted link was followed"
expect 125
says 'redhanded: '
# A link of our own in a folder of our own is followed.
ln -s elsewhere own
redhanded run --json own -- ./end
expect 7
is_report elsewhere || fail "no report behind our own link"
