# What the attacks are written in: see docs/hostile.md. Each attack runs in an empty folder of its own, as the user in
# question, and in a session of its own. Set by `cargo xtask hostile`: REDHANDED (the binary), HOSTILE (this folder),
# ORDINARY (the number of an ordinary user), KERNEL (a vmlinuz, where there is one).

set -u
unset RUST_BACKTRACE NO_COLOR
export LC_ALL=C.UTF-8
escape=$(printf '\033')

# Ends the attack: the tool did not hold.
fail() {
    echo "FAILED: $*"
    for file in out err; do
        [ -s $file ] && echo "-- $file:" && head -c 3000 $file | cat -v
    done
    exit 1
}

# Ends the attack: this machine cannot stage it.
skip() {
    echo "skipped: $*"
    exit 77
}

is_root() { [ "$(id -u)" = 0 ]; }

# compile NAME [FLAGS]: builds programs/NAME.c here.
compile() {
    program=$1
    shift
    gcc -g -O1 -pthread "$HOSTILE/programs/$program.c" -o "$program" "$@" || fail "cannot build $program"
}

# $as_user COMMAND: as an ordinary user. Not a function, which would be another process between.
as_user="setpriv --reuid=$ORDINARY --regid=$ORDINARY --clear-groups"

# own_recorder: the tool, and a recorder of our own that stands in for the real one. `record` ends with 7.
own_recorder() {
    mkdir -p data/redhanded/recorder
    compile recorder
    chmod 755 recorder
    mv recorder data/redhanded/recorder/libdynamorio.so
    : > data/redhanded/recorder/libredhanded_recorder.so
    # Beside the binary there may be a real one.
    [ -e tool ] || cp "$REDHANDED" tool
    REDHANDED="$PWD/tool"
    export XDG_DATA_HOME="$PWD/data"
}

# until_true COMMAND: waits until it succeeds, for 40 seconds.
until_true() {
    tries=0
    while ! "$@" 2> /dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 2000 ] || fail "waited in vain for: $*"
        sleep 0.02
    done
}

# start COMMAND: starts a target; its number is $target.
start() {
    rm -f ready
    "$@" > ready &
    target=$!
    until_true grep -q ready ready
}

# redhanded ARGUMENTS: runs it to its end. What it says is in out and err, its status in $status.
redhanded() {
    "$REDHANDED" "$@" > out 2> err
    status=$?
    is_sane
}

# begin ARGUMENTS: starts it; its number is $front.
begin() {
    # A shell has what it starts in the background ignore Ctrl-C.
    env --default-signal=INT,QUIT "$REDHANDED" "$@" > out 2> err &
    front=$!
}

# end: waits for what was begun.
end() {
    wait "$front"
    status=$?
    is_sane
}

# What holds after every end, whatever was attacked.
is_sane() {
    case $status in
        101 | 134 | 135 | 136 | 139) fail "it ended with status $status" ;;
    esac
    for said in out err; do
        [ -f $said ] || continue
        grep -aq -e panicked -e '\.rs:[0-9]' $said && fail "it panicked"
        grep -aq "$escape" $said && fail "a raw escape sequence reached the terminal"
    done
    return 0
}

# expect STATUS…: the status is one of these.
expect() {
    for wanted; do
        [ "$status" = "$wanted" ] && return
    done
    fail "status $status, expected $*"
}

# says WORDS: stderr has these words, however its lines are broken.
says() { tr -s '\n ' '  ' < err | grep -q -e "$1" || fail "it does not say: $1"; }
never_says() { ! grep -q -e "$1" err || fail "it says: $1"; }

# refused: status 125 and one sentence.
refused() {
    expect 125
    [ "$(wc -l < err)" = 1 ] || fail "one sentence was expected"
    says '^redhanded: '
}

# field PID NAME: of /proc/PID/status.
field() { sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status" 2> /dev/null; }
tracer_of() { field "$1" TracerPid; }
is_traced() { [ "$(tracer_of "$1")" != 0 ]; }
is_gone() { [ ! -e "/proc/$1" ] || [ "$(field "$1" State)" = "Z (zombie)" ]; }

# is_free PID: no tracer, and no thread of it is stopped.
is_free() {
    [ "$(tracer_of "$1")" = 0 ] || return 1
    for task in /proc/"$1"/task/*/status; do
        ! grep -q '^State:[[:space:]]*[tT]' "$task" || return 1
    done
}

# ends_well PID: the target is free, runs its own code, and ends as it was written to.
ends_well() {
    until_true is_free "$1"
    sleep 0.1
    kill -TERM "$1" 2> /dev/null || fail "the target is dead"
    wait "$1"
    ended=$?
    [ $ended = 0 ] || fail "the target ended with status $ended"
}

# put_down PID…: kills what the attack itself has started.
put_down() {
    for pid; do
        kill -KILL "$pid" 2> /dev/null
        wait "$pid" 2> /dev/null
    done
    return 0
}

# is_report FILE: a whole document.
is_report() { grep -q '"redhanded-report/1"' "$1" && [ "$(tail -c 2 "$1" | tr -d '\n')" = "}" ]; }

# limited WHAT STATUS…: under a limit it is an ordinary run with one of these statuses, in which the program ran, or 125
# with a sentence.
limited() {
    limited_what=$1
    shift
    [ "$status" != 125 ] || { says 'redhanded: '; is_sane; return; }
    is_sane
    for wanted; do
        [ "$status" = "$wanted" ] || continue
        [ "$wanted" != 7 ] || grep -q ran out || fail "$limited_what: the program did not run"
        return
    done
    fail "$limited_what: status $status, expected 125 or $*"
}
