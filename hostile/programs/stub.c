// stub KIND PATH: a gdbstub at a Unix socket that behaves as KIND says, for one client at a time.
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int client;

static int sent(const char *bytes, size_t size) {
    return send(client, bytes, size, MSG_NOSIGNAL) == (ssize_t)size;
}

static int answer(const char *text) {
    char packet[8192];
    unsigned char sum = 0;
    for (const char *at = text; *at; at++) sum += *at;
    return sent(packet, snprintf(packet, sizeof packet, "+$%s#%02x", text, sum));
}

static const char *description(const char *kind) {
    if (!strcmp(kind, "includes-itself"))
        return "l<target><architecture>i386:x86-64</architecture><xi:include href=\"target.xml\"/>"
               "<xi:include href=\"target.xml\"/></target>";
    if (!strcmp(kind, "escapes"))
        return "l<target><architecture>\033[31mevil\033]0;title\007</architecture></target>";
    return "";
}

static void serve(const char *kind) {
    char asked[8192];
    if (!strcmp(kind, "drips"))
        for (sent("$", 1); sent("a", 1);) usleep(20000);
    if (!strcmp(kind, "floods")) {
        memset(asked, 'a', sizeof asked);
        for (sent("$", 1); sent(asked, sizeof asked);) {}
    }
    for (;;) {
        ssize_t size = read(client, asked, sizeof asked - 1);
        if (size <= 0) return;
        asked[size] = 0;
        if (!strcmp(kind, "silent")) continue;
        if (!strchr(asked, '$') && !strchr(asked, 3)) continue;
        const char *text = strstr(asked, "qSupported") ? "PacketSize=1000;qXfer:features:read+;vContSupported+"
                         : strstr(asked, "vCont?")     ? "vCont;c;C;s;S"
                         : strstr(asked, "NoAckMode")  ? "OK"
                         : strstr(asked, "fThreadInfo") ? "m01,02"
                         : strstr(asked, "sThreadInfo") ? "l"
                         : strstr(asked, "features")   ? description(kind)
                         : strstr(asked, "$?")         ? "T05thread:01;"
                         : strstr(asked, "$H")         ? "OK"
                                                       : "";
        if (!answer(text)) return;
    }
}

int main(int argc, char **argv) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (argc < 3) return 1;
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    strncpy(address.sun_path, argv[2], sizeof address.sun_path - 1);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, !strcmp(argv[1], "full") ? 0 : 4))
        return 1;
    puts("ready");
    fflush(stdout);
    if (!strcmp(argv[1], "full")) {
        int first = socket(AF_UNIX, SOCK_STREAM, 0);
        if (connect(first, (struct sockaddr *)&address, sizeof address)) return 1;
        pause();
    }
    while ((client = accept(listener, 0, 0)) >= 0) {
        serve(argv[1]);
        close(client);
    }
    return 0;
}
