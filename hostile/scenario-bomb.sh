# A scenario of half a megabyte that unpacks to gigabytes, and damaged ones: a sentence, and memory within bounds.
gcc -O1 "$HOSTILE/programs/scenario_bomb.c" -o scenario_bomb || fail "cannot build scenario_bomb"
gcc -O1 "$HOSTILE/programs/peak.c" -o peak || fail "cannot build peak"
./scenario_bomb 80000000 > bomb
[ "$(wc -c < bomb)" -lt 600000 ] || fail "the bomb is not compressed"
timeout -s KILL 50 ./peak "$REDHANDED" replay bomb > out 2> err
status=$?
is_sane
expect 125
says 'redhanded: '
peak=$(sed -n 's/^peak //p' err)
[ "$peak" -lt 1100000 ] || fail "it took $peak KiB"
mkfifo pipe
for length in 0 10 21 22 30 1000; do
    head -c $length bomb > cut
    redhanded replay cut
    refused
done
redhanded replay pipe
refused
