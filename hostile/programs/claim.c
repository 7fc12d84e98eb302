// claim FILE SIZE: makes every compressed section of an ELF file claim to unpack to SIZE bytes.
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    if (argc < 3) return 1;
    FILE *file = fopen(argv[1], "r+");
    Elf64_Ehdr header;
    int found = 0;
    if (!file || fread(&header, sizeof header, 1, file) != 1) return 1;
    for (int i = 0; i < header.e_shnum; i++) {
        Elf64_Shdr section;
        Elf64_Chdr packed;
        fseek(file, header.e_shoff + i * sizeof section, SEEK_SET);
        if (fread(&section, sizeof section, 1, file) != 1) return 1;
        if (!(section.sh_flags & SHF_COMPRESSED)) continue;
        fseek(file, section.sh_offset, SEEK_SET);
        if (fread(&packed, sizeof packed, 1, file) != 1) return 1;
        packed.ch_size = atol(argv[2]);
        fseek(file, section.sh_offset, SEEK_SET);
        fwrite(&packed, sizeof packed, 1, file);
        found = 1;
    }
    return fclose(file) || !found;
}
