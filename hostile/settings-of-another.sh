# Settings and a repository that another user has planted where root works: ignored, and root's run is an ordinary one.
#@ as: root
compile end
mkdir theirs
chown "$ORDINARY" theirs
chmod 755 theirs
$as_user mkdir theirs/.git
cd theirs || fail "no folder"
for plant in 'echo "store = \"planted.db\"" > redhanded.toml' 'mkfifo redhanded.toml' 'ln -s /dev/zero redhanded.toml' \
    'mkdir redhanded.toml' 'ln -s redhanded.toml redhanded.toml'; do
    $as_user sh -c "$plant"
    timeout -s KILL 20 "$REDHANDED" run -- ../end > ../out 2> ../err
    status=$?
    (cd .. && is_sane && expect 7 && says 'redhanded.toml is ignored') || exit 1
    [ ! -e planted.db ] || fail "the planted settings made a store"
    rm -r redhanded.toml
done
