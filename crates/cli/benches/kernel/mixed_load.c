// A bit of everything that a kernel is asked for, without end: processes, pipes,
// files on tmpfs and ext4, memory, sockets, and /proc; each by two processes or
// threads that share what they work on.
//
//   mixed_load [IMAGE]     IMAGE: an ext4 file system, for /dev/loop0
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// Starts a process that does one thing again and again.
static void repeat(void (*work)(void *), void *argument)
{
    if (fork() != 0)
        return;
    for (unsigned round = 1;; round++) {
        work(argument);
        if (round % 64 == 0)
            usleep(1000);
    }
}

static void processes(void *unused)
{
    int status;
    pid_t child = fork();

    (void)unused;
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    waitpid(child, &status, 0);
}

static int tube[2];

static void write_pipe(void *unused)
{
    char bytes[700] = {0};

    (void)unused;
    if (write(tube[1], bytes, sizeof bytes) < 0)
        usleep(10);
}

static void read_pipe(void *unused)
{
    char bytes[512];
    struct pollfd wait = {.fd = tube[0], .events = POLLIN};

    (void)unused;
    poll(&wait, 1, 5);
    if (read(tube[0], bytes, sizeof bytes) < 0)
        usleep(10);
}

// A folder in which two processes get in each other's way.
static void files(void *folder)
{
    static unsigned number;
    char path[200], other[200], bytes[3000] = {0};
    struct stat status;
    int file;

    snprintf(path, sizeof path, "%s/%u", (char *)folder, number % 5);
    snprintf(other, sizeof other, "%s/%u", (char *)folder, (number + 2) % 7);
    number++;
    file = open(path, O_CREAT | O_RDWR, 0644);
    if (file >= 0) {
        pwrite(file, bytes, 1 + number * 37 % sizeof bytes, number * 511 % 20000);
        pread(file, bytes, sizeof bytes, 0);
        lseek(file, 0, SEEK_END);
        fstat(file, &status);
        if (number % 16 == 0)
            fsync(file);
        close(file);
    }
    link(path, other);
    stat(other, &status);
    rename(other, path);
    if (number % 9 == 0)
        truncate(path, 10);
    if (number % 5 == 0)
        unlink(path);
}

static void shared_file(void *path)
{
    char bytes[600] = {0};
    struct stat status;
    int file = open(path, O_CREAT | O_RDWR | O_APPEND, 0644);

    if (file < 0)
        return;
    for (int i = 0; i < 20; i++) {
        write(file, bytes, sizeof bytes);
        lseek(file, 0, SEEK_SET);
        read(file, bytes, sizeof bytes);
        fstat(file, &status);
    }
    if (status.st_size > 1 << 18)
        ftruncate(file, 0);
    close(file);
}

static char *pages;

static void *touch(void *from)
{
    for (size_t at = (size_t)from; at < 64 << 12; at += 4096)
        pages[at]++;
    return NULL;
}

static void memory(void *unused)
{
    pthread_t threads[2];

    (void)unused;
    pages = mmap(NULL, 64 << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, touch, (void *)i);
    mprotect(pages, 8 << 12, PROT_READ);
    mprotect(pages, 8 << 12, PROT_READ | PROT_WRITE);
    madvise(pages + (16 << 12), 8 << 12, MADV_DONTNEED);
    for (size_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    munmap(pages, 64 << 12);
}

static int udp, pair[2];
static struct sockaddr_in here = {.sin_family = AF_INET};

static void send_datagrams(void *unused)
{
    static int option;
    char bytes[100] = {0};
    socklen_t length = sizeof here;

    (void)unused;
    getsockname(udp, (struct sockaddr *)&here, &length);
    sendto(udp, bytes, sizeof bytes, MSG_DONTWAIT, (struct sockaddr *)&here, length);
    send(pair[0], bytes, sizeof bytes, MSG_DONTWAIT);
    option = option * 5 + 1;
    int value = 1 + (option & 63);
    setsockopt(udp, IPPROTO_IP, IP_TTL, &value, sizeof value);
    setsockopt(udp, SOL_SOCKET, SO_SNDBUF, &value, sizeof value);
}

static void take_datagrams(void *unused)
{
    char bytes[200];
    struct pollfd wait[2] = {{.fd = udp, .events = POLLIN}, {.fd = pair[1], .events = POLLIN}};

    (void)unused;
    poll(wait, 2, 5);
    recv(udp, bytes, sizeof bytes, MSG_DONTWAIT);
    recv(pair[1], bytes, sizeof bytes, MSG_DONTWAIT);
}

static int listening;

static void serve(void *unused)
{
    char bytes[4000];
    int client = accept(listening, NULL, NULL);
    ssize_t size;

    (void)unused;
    while ((size = read(client, bytes, sizeof bytes)) > 0)
        write(client, bytes, size / 2);
    close(client);
}

static void talk(void *unused)
{
    char bytes[3000] = {0};
    struct sockaddr_in there;
    socklen_t length = sizeof there;
    int line = socket(AF_INET, SOCK_STREAM, 0);

    (void)unused;
    getsockname(listening, (struct sockaddr *)&there, &length);
    if (connect(line, (struct sockaddr *)&there, length) == 0)
        for (int i = 0; i < 10; i++) {
            write(line, bytes, sizeof bytes);
            recv(line, bytes, sizeof bytes, MSG_DONTWAIT);
        }
    close(line);
}

static void look(void *unused)
{
    static const char *const what[] = {"/proc/self/stat",   "/proc/stat",    "/proc/1/status", "/proc/meminfo",
                                       "/proc/self/smaps",  "/proc/net/udp", "/proc/net/tcp",  "/proc/vmstat",
                                       "/proc/1/sched",     "/proc/loadavg", "/proc/net/dev",  "/proc/2/stat",
                                       "/proc/interrupts",  "/proc/uptime",  "/proc/net/unix", "/proc/1/schedstat"};
    static unsigned number;
    char bytes[4096];
    int file = open(what[number++ % (sizeof what / sizeof *what)], O_RDONLY);

    (void)unused;
    if (file < 0)
        return;
    while (read(file, bytes, sizeof bytes) > 0)
        ;
    close(file);
}

// Two processes for each.
static void twice(void (*work)(void *), void *argument)
{
    repeat(work, argument);
    repeat(work, argument);
}

static bool mount_image(const char *image)
{
    int device = open("/dev/loop0", O_RDWR), file = open(image, O_RDWR);

    mkdir("/ext4", 0755);
    return device >= 0 && file >= 0 && ioctl(device, LOOP_SET_FD, file) == 0 &&
           mount("/dev/loop0", "/ext4", "ext4", 0, NULL) == 0;
}

int main(int count, char **arguments)
{
    if (count > 1 && mount_image(arguments[1])) {
        twice(files, "/ext4");
        twice(shared_file, "/ext4/shared");
    } else if (count > 1) {
        perror("ext4");
    }
    pipe2(tube, O_NONBLOCK);
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    udp = socket(AF_INET, SOCK_DGRAM, 0);
    bind(udp, (struct sockaddr *)&here, sizeof here);
    listening = socket(AF_INET, SOCK_STREAM, 0);
    bind(listening, (struct sockaddr *)&here, sizeof here);
    listen(listening, 10);
    twice(processes, NULL);
    twice(write_pipe, NULL);
    twice(read_pipe, NULL);
    twice(files, "/tmp");
    twice(shared_file, "/tmp/shared");
    twice(memory, NULL);
    twice(send_datagrams, NULL);
    twice(take_datagrams, NULL);
    twice(serve, NULL);
    twice(talk, NULL);
    twice(look, NULL);
    for (;;)
        pause();
}
