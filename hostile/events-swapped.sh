# The owner of the folder has a pipe where root's events go, and swaps it for a link: root's other files stay as they are.
#@ as: root
compile end
gcc -O1 "$HOSTILE/programs/swap_stream.c" -o swap_stream || fail "cannot build swap_stream"
echo 'root only' > victim
chmod 600 victim
mkdir mine
chown "$ORDINARY" mine
victim=$PWD/victim
# A link that stays is refused each time.
$as_user ln -s "$victim" mine/events
redhanded run --quiet --events mine/events -- ./end
refused
mkfifo own
$as_user ln -s ../own mine/pipe
redhanded run --quiet --events mine/pipe -- ./end
refused
says "another user's symbolic link"
rm mine/events
(cd mine && exec $as_user ../swap_stream events "$victim") &
swapper=$!
rounds=$((10 * SCALE))
while [ $rounds -gt 0 ]; do
    rounds=$((rounds - 1))
    redhanded run --quiet --events mine/events -- ./end 100
    expect 7 125
    [ "$(cat victim)" = 'root only' ] || fail "root's file was overwritten"
done
put_down "$swapper"
