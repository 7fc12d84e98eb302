# Root with somebody else's home, where a recorder is planted: it is not run.
#@ as: root
compile end
cp "$REDHANDED" tool
REDHANDED="$PWD/tool"
plant() {
    mkdir -p "$1"
    printf '#!/bin/sh\ntouch %s/executed\n' "$PWD" > "$1/libdynamorio.so"
    : > "$1/libredhanded_recorder.so"
    chmod 755 "$1"/*
}
plant home/.local/share/redhanded/recorder
chown -R "$ORDINARY" home
unset XDG_DATA_HOME
export HOME="$PWD/home"
for command in record check; do
    redhanded $command -- ./end 100
    refused
    says 'belongs to another user'
    [ ! -e executed ] || fail "the planted recorder was run"
done
# The same by XDG_DATA_HOME: a file of another user, one that all may write to, and a folder that all may write to.
plant data/redhanded/recorder
export XDG_DATA_HOME="$PWD/data"
chown "$ORDINARY" data/redhanded/recorder/libredhanded_recorder.so
redhanded record -- ./end 100
refused
chown 0 data/redhanded/recorder/libredhanded_recorder.so
chmod 777 data/redhanded/recorder/libdynamorio.so
redhanded record -- ./end 100
refused
chmod 755 data/redhanded/recorder/libdynamorio.so
chmod 777 data/redhanded
redhanded record -- ./end 100
refused
says 'other users may write to'
[ ! -e executed ] || fail "the planted recorder was run"
# Its own is run.
chmod 755 data/redhanded
redhanded record -- ./end 100
[ -e executed ] || fail "our own recorder was not run"
