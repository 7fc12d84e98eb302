# The front or the tracer is stopped for a while: afterwards all goes on, and the target is left alone.
compile spin
for whom in front tracer; do
    start ./spin
    # Long enough that it is there to be stopped on a busy machine.
    begin attach --for 6s "$target"
    until_true is_traced "$target"
    sleep 0.2
    stopped=$front
    [ $whom = front ] || stopped=$(tracer_of "$target")
    kill -STOP "$stopped"
    sleep 1
    kill -CONT "$stopped"
    end
    expect 0 66 125
    ends_well "$target"
done
