# Escape sequences in a script's first line, a file's name, a program's interpreter, the names of functions, variables
# and source files: none reaches the terminal raw.
evil=$(printf '\033[31mevil\033]0;title\007')
printf '#!/no/such/%s\n' "$evil" > script
chmod +x script
redhanded run -- ./script
expect 126 127
redhanded run -- "./absent$evil"
expect 127
redhanded sites "absent$evil"
expect 125
redhanded run --json "absent$evil/report" -- /bin/true
expect 125
compile end -Wl,--dynamic-linker="/no/$evil"
redhanded run -- ./end
expect 126
cp "$HOSTILE/programs/spin.c" evil.c
sed -i 's/^long shared;/long shared __asm__("\\"sha\\033[31mred\\"");/; s/^static void \*work(/static void *work(void *) __asm__("\\"wo\\033]0;t\\007rk\\"");\n&/' evil.c
gcc -O1 -g0 -pthread evil.c -o evil 2> gcc.log || gcc -O1 -pthread -DLINE='"\033[31mevil.c"' -g "$HOSTILE/programs/spin.c" -o evil || fail "cannot build the racy program"
redhanded run --for 5s --kill --max-races 1 --json report --log log -- ./evil
expect 66 0
redhanded report log
expect 66 0
compile spin -DLINE='"\033[31mevil\033]0;t\007.c"'
redhanded run --for 5s --kill --json report -- ./spin
expect 0 66
grep -q '"shared"' report || fail "nothing was caught"
! grep -q "$escape" report || fail "the report's document has a raw escape sequence"
