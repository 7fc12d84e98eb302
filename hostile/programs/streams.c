/* Ends with a status that says which of its standard streams are closed. */
#include <fcntl.h>

int main(void) {
    int closed = 0;
    for (int stream = 0; stream < 3; stream++)
        if (fcntl(stream, F_GETFD) == -1)
            closed |= 1 << stream;
    return 10 + closed;
}
