# A library that is loaded and unloaded 1,500 times: it costs seconds, and two minutes at most on a busy machine.
#@ within: 240s
compile reload
gcc -g -O1 -shared -fPIC "$HOSTILE/programs/library.c" -o library.so || fail "cannot build the library"
begin_at=$(date +%s)
timeout -s KILL 200 "$REDHANDED" run --json report -- ./reload ./library.so 1500 > out 2> err
status=$?
expect 0 66
is_sane
took=$(($(date +%s) - begin_at))
[ $took -le 120 ] || fail "1,500 dlopens took $took s"
is_report report || fail "no report"
