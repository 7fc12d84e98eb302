# A debug link, a debug file by build id and a source file that are FIFOs: nobody waits for them.
compile spin -DLINE='"fifo.c"' -Wl,--build-id
mkfifo fifo.c debug.fifo
: > debug
objcopy --strip-debug --add-gnu-debuglink=debug spin linked || fail "objcopy"
rm debug
mkfifo debug
for program in spin linked; do
    start ./$program
    begin attach --for 1s "$target"
    end
    expect 0 66
    ends_well "$target"
done
redhanded sites debug.fifo
refused
