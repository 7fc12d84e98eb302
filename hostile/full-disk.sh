# A full disk behind the report, the log and the cores: a sentence and 125, after the report on the terminal.
compile end
compile spin
redhanded run --json /dev/full -- ./end
expect 125 7
if is_root && mkdir small && mount -t tmpfs -o size=4k none small 2> /dev/null; then
    for kind in json log; do
        redhanded run --$kind small/file -- ./end
        umount small && mount -t tmpfs -o size=4k none small
        [ $status = 7 ] || { expect 125 && says 'redhanded: .*No space left'; }
    done
    mkdir small/cores
    redhanded run --for 2s --kill --max-races 1 --core small/cores -- ./spin
    expect 66 125 0
    umount small
fi
