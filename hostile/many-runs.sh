# So many runs in one session that the list of breakpoint bytes fills up: the last run is sampled like the first.
#@ as: root
#@ within: 240s
compile many
sampled() { sed -n 's/^ *"samples": \([0-9]*\),*/\1/p' "$1" | head -n 1; }
# The least of a few: a run that a busy machine draws out is sampled more often.
least=1000000
for run in 1 2 3 4 5; do
    redhanded run --json one -- ./many
    expect 0
    [ "$(sampled one)" -ge $least ] || least=$(sampled one)
done
redhanded run --repeat 450 --json all -- ./many
expect 0
[ $least -gt 0 ] || fail "nothing was sampled"
[ "$(sampled all)" -gt $((least * 440)) ] || fail "$least samples of one run, $(sampled all) of 450"
never_says 'differs'
