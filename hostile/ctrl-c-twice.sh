# Ctrl-C twice, at once and a little later: the tool ends, and the target is left alone.
compile spin
for pause in 0 0.01 0.1; do
    start ./spin
    begin attach "$target"
    until_true is_traced "$target"
    sleep 0.2
    kill -INT "$front"
    sleep $pause
    kill -INT "$front" 2> /dev/null
    end
    expect 0 66
    ends_well "$target"
done
