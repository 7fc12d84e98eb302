# Compressed debug information that unpacks to far more than it claims: little memory, little time.
compile end -g0
truncate -s 120M zeros
objcopy --add-section .debug_info=zeros --add-section .debug_abbrev=zeros end big || fail "objcopy"
rm zeros
gcc -O1 "$HOSTILE/programs/claim.c" -o claim || fail "cannot build claim"
gcc -O1 "$HOSTILE/programs/peak.c" -o peak || fail "cannot build peak"
# A decoder of zlib may stop at what is claimed; one of zstd goes on.
for format in zlib zstd; do
    objcopy --compress-debug-sections=$format big bomb || { echo "no $format here"; continue; }
    ./claim bomb 100 || fail "the bomb has no compressed sections"
    [ "$(wc -c < bomb)" -lt 2000000 ] || fail "the bomb is not compressed"
    for command in sites "run --"; do
        timeout -s KILL 40 ./peak "$REDHANDED" $command ./bomb > out 2> err
        status=$?
        is_sane
        expect 0 7
        peak=$(sed -n 's/^peak //p' err)
        [ "$peak" -lt 100000 ] || fail "$format, $command: took $peak KiB"
    done
done
