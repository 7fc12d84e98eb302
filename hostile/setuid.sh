# Setuid programs, and processes of others: an ordinary user gets no power over them. The program runs unobserved and
# with its own rights; a process is refused in a sentence.
#@ as: root
compile rights
chmod 4755 rights
$as_user sh -c '"$REDHANDED" run --core . --stop-on-race -- ./rights' > out 2> err
status=$?
expect 0
says 'runs unobserved'
grep -q 'effective 0' out || fail "the program lost its rights"
compile spin
start ./spin
$as_user sh -c '"$REDHANDED" attach --for 1s '"$target" > out 2> err
status=$?
refused
ends_well "$target"
# One that gains rights while it is observed.
$as_user sh -c '"$REDHANDED" run -- sh -c ./rights' > out 2> err
status=$?
expect 0
! grep -q 'effective 0' out || ! grep -q 'traced' out || fail "a traced program has root's rights"
