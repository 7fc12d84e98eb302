# The tracer hangs while it holds threads: after a deadline the target is freed, and the status is 125.
#@ within: 300s
compile spin
start ./spin
begin attach --for 60s "$target"
until_true is_traced "$target"
sleep 0.3
tracer=$(tracer_of "$target")
kill -STOP "$tracer"
end
expect 125
until_true is_gone "$tracer"
ends_well "$target"
# The same by the target's own doing.
compile kills_tool
timeout -s KILL 90 "$REDHANDED" run --for 60s --kill -- ./kills_tool tracer 19 > out 2> err
status=$?
is_sane
expect 125
