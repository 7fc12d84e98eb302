# The owner of the folder swaps root's half-written report for a link: root's other files stay as they are.
#@ as: root
compile end
gcc -O1 "$HOSTILE/programs/swap.c" -o swap || fail "cannot build swap"
echo 'root only' > victim
chmod 600 victim
mkdir mine
chown "$ORDINARY" mine
$as_user ./swap mine "$PWD/victim" &
swapper=$!
rounds=$((40 * SCALE))
while [ $rounds -gt 0 ]; do
    rounds=$((rounds - 1))
    redhanded run --quiet --json mine/report -- ./end
    expect 7 125
    [ "$(stat -c '%u %a' victim)" = '0 600' ] || fail "root's file was given away: $(stat -c '%u %a' victim)"
    [ "$(cat victim)" = 'root only' ] || fail "root's file was overwritten"
done
put_down "$swapper"
