# The tracer is killed at its work: status 125 and a sentence, for a program and for a process.
compile spin
start ./spin
begin attach --for 20s "$target"
until_true is_traced "$target"
sleep 0.3
kill -KILL "$(tracer_of "$target")"
end
expect 125
says 'redhanded: the tracer was killed by signal 9'
put_down "$target"
