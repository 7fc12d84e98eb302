# The tracer is killed at its work: status 125 and a sentence, for a program and for a process.
compile spin
# It may have died with the tracer.
free_or_gone() { is_gone "$1" || is_free "$1"; }
begin run --for 20s -- ./spin
until_true grep -q ready out
target=$(sed -n 's/^ready //p' out)
until_true is_traced "$target"
sleep 0.3
kill -KILL "$(tracer_of "$target")"
until_true free_or_gone "$target"
kill -TERM "$target" 2> /dev/null
end
expect 125
says 'redhanded: the tracer was killed by signal 9'

start ./spin
begin attach --for 20s "$target"
until_true is_traced "$target"
sleep 0.3
kill -KILL "$(tracer_of "$target")"
end
expect 125
says 'redhanded: the tracer was killed by signal 9'
put_down "$target"
