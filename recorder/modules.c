/* Files that are mapped as code, and the hooked functions in them. */
#include "recorder.h"
#include "hashtable.h"
#include <elf.h>
#include <string.h>

static hashtable_t hooks;    /* an address to a function's number */
static hashtable_t by_name;  /* a symbol to a function's number */
static char own_names[WIRE_LONGEST_OWN + 1];

uint32_t
hooked_function(app_pc pc)
{
    return (uint32_t)(ptr_uint_t)hashtable_lookup(&hooks, pc);
}

static void
hook_symbols(const uint8_t *file, size_t size, const Elf64_Shdr *symbols, const Elf64_Shdr *names,
             app_pc base)
{
    if (symbols->sh_offset > size || symbols->sh_size > size - symbols->sh_offset ||
        names->sh_offset > size || names->sh_size > size - names->sh_offset ||
        names->sh_size == 0 || file[names->sh_offset + names->sh_size - 1] != 0)
        return;
    const uint8_t *at = file + symbols->sh_offset;
    for (size_t i = 0; i < symbols->sh_size / sizeof(Elf64_Sym); i++, at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        memcpy(&symbol, at, sizeof symbol);
        if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF ||
            symbol.st_name >= names->sh_size)
            continue;
        char *name = (char *)file + names->sh_offset + symbol.st_name;
        void *function = hashtable_lookup(&by_name, name);
        /* A function of a file's own may be called like one of the C library. */
        bool is_local = ELF64_ST_BIND(symbol.st_info) == STB_LOCAL;
        if (function != NULL && (!is_local || (ptr_uint_t)function >= WIRE_FIRST_OWN))
            hashtable_add_replace(&hooks, base + symbol.st_value, function);
    }
}

/* Finds the hooked functions by the file's symbols, those for linking and the others. The file is
 * foreign: nothing in it is believed. */
static void
hook_file(const char *path, app_pc base)
{
    uint64 length;
    file_t handle = dr_open_file(path, DR_FILE_READ);
    if (handle == INVALID_FILE)
        return;
    size_t size = dr_file_size(handle, &length) ? (size_t)length : 0;
    size_t mapped = size;
    uint8_t *file = size < sizeof(Elf64_Ehdr)
        ? NULL
        : dr_map_file(handle, &mapped, 0, NULL, DR_MEMPROT_READ, DR_MAP_PRIVATE);
    dr_close_file(handle);
    if (file == NULL)
        return;
    Elf64_Ehdr header;
    memcpy(&header, file, sizeof header);
    bool is_elf = memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
        header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_shentsize == sizeof(Elf64_Shdr);
    size_t table = (size_t)header.e_shnum * sizeof(Elf64_Shdr);
    if (is_elf && header.e_shoff <= size && table <= size - header.e_shoff) {
        for (unsigned i = 0; i < header.e_shnum; i++) {
            Elf64_Shdr symbols, names;
            memcpy(&symbols, file + header.e_shoff + i * sizeof symbols, sizeof symbols);
            if ((symbols.sh_type != SHT_SYMTAB && symbols.sh_type != SHT_DYNSYM) ||
                symbols.sh_link >= header.e_shnum)
                continue;
            memcpy(&names, file + header.e_shoff + symbols.sh_link * sizeof names, sizeof names);
            hook_symbols(file, size, &symbols, &names, base);
        }
    }
    dr_unmap_file(file, mapped);
}

struct text {
    char *at;
    size_t length;
    char bytes[16 * 1024];
};

static void
add(struct text *text, const char *format, uint64_t value)
{
    if (text->length + 64 < sizeof text->bytes) {
        int done = dr_snprintf(text->bytes + text->length, 63, format, (unsigned long long)value);
        text->length += done > 0 ? (size_t)done : 0;
        text->bytes[text->length] = 0;
    }
}

static void
add_string(struct text *text, const char *string)
{
    add(text, "\"", 0);
    for (; *string != 0 && text->length + 64 < sizeof text->bytes; string++) {
        unsigned char byte = (unsigned char)*string;
        if (byte < 0x20 || byte == '"' || byte == '\\') {
            add(text, "\\u%04llx", byte);
        } else {
            text->bytes[text->length++] = (char)byte;
            text->bytes[text->length] = 0;
        }
    }
    add(text, "\"", 0);
}

static void
tell_module(const module_data_t *module)
{
    struct text *text = dr_global_alloc(sizeof *text);
    const char *path = module->full_path != NULL ? module->full_path : "";
    const char *name = dr_module_preferred_name(module);
    if (path[0] == 0 && name != NULL)
        path = name;
    if (name != NULL && strcmp(name, "linux-vdso.so.1") == 0)
        path = "[vdso]";
    text->length = 0;
    add(text, "{\"path\":", 0);
    add_string(text, path);
    add(text, ",\"start\":%llu", (uint64_t)module->start);
    add(text, ",\"end\":%llu", (uint64_t)module->end);
    add(text, ",\"offset\":%llu", module->num_segments > 0 ? module->segments[0].offset : 0);
    add(text, ",\"parts\":[", 0);
    for (uint i = 0; i < module->num_segments; i++) {
        const module_segment_data_t *part = &module->segments[i];
        add(text, i == 0 ? "{" : ",{", 0);
        add(text, "\"start\":%llu", (uint64_t)part->start);
        add(text, ",\"end\":%llu", (uint64_t)part->end);
        add(text, ",\"offset\":%llu", part->offset);
        add(text, (part->prot & DR_MEMPROT_WRITE) != 0 ? ",\"writable\":true" : ",\"writable\":false",
            0);
        add(text,
            (part->prot & DR_MEMPROT_EXEC) != 0 ? ",\"executable\":true}"
                                                : ",\"executable\":false}",
            0);
    }
    add(text, "]}", 0);
    output_text(WIRE_CHUNK_MODULE, 0, text->bytes);
    dr_global_free(text, sizeof *text);
}

static void
module_loaded(void *drcontext, const module_data_t *module, bool loaded)
{
    (void)drcontext;
    (void)loaded;
    write_dictionary();
    tell_module(module);
    if (module->full_path != NULL)
        hook_file(module->full_path, (app_pc)(module->start - module->preferred_base));
}

static void
module_unloaded(void *drcontext, const module_data_t *module)
{
    char text[64];
    (void)drcontext;
    write_dictionary();
    forget_sites(module->start, module->end);
    hashtable_lock(&hooks);
    hashtable_remove_range(&hooks, module->start, module->end);
    hashtable_unlock(&hooks);
    dr_snprintf(text, sizeof text, "{\"start\":%llu}", (unsigned long long)module->start);
    output_text(WIRE_CHUNK_UNMAPPED, 0, text);
}

/* A child has the modules of its parent. */
void
modules_after_fork(void)
{
    dr_module_iterator_t *all = dr_module_iterator_start();
    while (dr_module_iterator_hasnext(all)) {
        module_data_t *module = dr_module_iterator_next(all);
        tell_module(module);
        dr_free_module_data(module);
    }
    dr_module_iterator_stop(all);
}

/* The program's own functions that are to be hooked, too: a line each. Those that are known
 * already keep their meaning. */
static void
name_own_functions(const char *folder)
{
    char path[MAXIMUM_PATH];
    dr_snprintf(path, sizeof path - 1, "%s/functions", folder);
    path[sizeof path - 1] = 0;
    file_t file = dr_open_file(path, DR_FILE_READ);
    if (file == INVALID_FILE)
        return;
    ssize_t length = dr_read_file(file, own_names, WIRE_LONGEST_OWN);
    dr_close_file(file);
    ptr_uint_t number = WIRE_FIRST_OWN;
    char *name = own_names;
    for (ssize_t i = 0; i < length; i++) {
        if (own_names[i] != '\n')
            continue;
        own_names[i] = 0;
        hashtable_add(&by_name, name, (void *)number++);
        name = own_names + i + 1;
    }
}

void
modules_init(const char *folder)
{
    hashtable_init_ex(&hooks, 8, HASH_INTPTR, false, true, NULL, NULL, NULL);
    hashtable_init_ex(&by_name, 8, HASH_STRING, false, true, NULL, NULL, NULL);
    for (uint32_t i = 1; i < WIRE_FUNCTIONS; i++) {
        if (wire_functions[i].symbol != NULL)
            hashtable_add(&by_name, (void *)wire_functions[i].symbol, (void *)(ptr_uint_t)i);
    }
    name_own_functions(folder);
    drmgr_register_module_load_event(module_loaded);
    drmgr_register_module_unload_event(module_unloaded);
}

void
modules_exit(void)
{
    hashtable_delete(&hooks);
    hashtable_delete(&by_name);
}
