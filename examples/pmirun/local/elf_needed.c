/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads an ELF file: its header, its program headers, the dynamic section that one of them locates,
 * and the names in the string table that this section locates. Offsets come from the file and are
 * untrusted: pread() into buffers of a fixed size is the only access.
 */
#define _GNU_SOURCE
#include "elf_needed.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define MAX_HEADERS 64u /* program headers that are read */

#define OUR_CLASS (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)
#define OUR_DATA  (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB)

struct headers {
    ElfW(Phdr) at[MAX_HEADERS];
    size_t n;
};

static size_t read_at(int fd, void *p, size_t n, uint64_t offset)
{
    ssize_t got = offset > INT64_MAX ? -1 : pread(fd, p, n, (off_t)offset);

    return got < 0 ? 0 : (size_t)got;
}

static bool read_headers(int fd, struct headers *h)
{
    ElfW(Ehdr) e;

    if (read_at(fd, &e, sizeof(e), 0) != sizeof(e) || memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 ||
        e.e_ident[EI_CLASS] != OUR_CLASS || e.e_ident[EI_DATA] != OUR_DATA ||
        e.e_phentsize != sizeof(ElfW(Phdr)))
        return false;
    h->n = e.e_phnum < MAX_HEADERS ? e.e_phnum : MAX_HEADERS;
    return read_at(fd, h->at, h->n * sizeof(h->at[0]), e.e_phoff) == h->n * sizeof(h->at[0]);
}

/* The offset in the file of an address of the program. False: the file has none. */
static bool find_offset(const struct headers *h, uint64_t address, uint64_t *offset)
{
    for (size_t i = 0; i < h->n; i++) {
        const ElfW(Phdr) *p = &h->at[i];

        if (p->p_type != PT_LOAD || address < p->p_vaddr || address - p->p_vaddr >= p->p_filesz)
            continue;
        *offset = p->p_offset + (address - p->p_vaddr);
        return true;
    }
    return false;
}

/* A text with its NUL, at most n bytes. */
static bool read_text(int fd, uint64_t offset, char *text, size_t n)
{
    size_t got = read_at(fd, text, n, offset);

    if (memchr(text, '\0', got))
        return true;
    text[0] = '\0';
    return false;
}

static const ElfW(Phdr) * header_of(const struct headers *h, uint32_t type)
{
    for (size_t i = 0; i < h->n; i++)
        if (h->at[i].p_type == type)
            return &h->at[i];
    return NULL;
}

/* Is the end of the name that of a function which starts a program or loads a library? Linkers let
 * a name share the end of a longer one. */
static bool is_leading_on(const char *name, size_t n)
{
    static const char *const ends[] = {
        "execve",   "execv",  "execvp", "execvpe",     "execl",        "execlp", "execle",
        "execveat", "system", "popen",  "posix_spawn", "posix_spawnp", "dlopen", "dlmopen"};

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        const size_t len = strlen(ends[i]);

        if (n >= len && memcmp(name + n - len, ends[i], len) == 0)
            return true;
    }
    return false;
}

/* Looks through the names of a string table of `bytes`. */
static bool leads_on(int fd, uint64_t offset, uint64_t bytes)
{
    static char names[NEEDS_NAMES_BYTES];
    size_t n = read_at(fd, names, sizeof(names), offset);

    if (n < bytes)
        return true;
    n = bytes;
    for (size_t i = 0, end; i < n; i = end + 1) {
        const char *nul = memchr(names + i, '\0', n - i);

        end = nul ? (size_t)(nul - names) : n;
        if (is_leading_on(names + i, end - i))
            return true;
    }
    return false;
}

bool needs_read(int fd, struct needs *needs)
{
    static ElfW(Dyn) dynamic[NEEDS_MAX];
    const ElfW(Phdr) * p;
    struct headers h;
    char name[NEEDS_NAME_BYTES];
    uint64_t address = 0, strings, bytes = 0;
    size_t n, n_read;

    needs->interp[0] = '\0';
    needs->leads_on = false;
    if (!read_headers(fd, &h))
        return false;
    p = header_of(&h, PT_INTERP);
    if (p && !read_text(fd, p->p_offset, needs->interp, sizeof(needs->interp)))
        return false;
    p = header_of(&h, PT_DYNAMIC);
    if (!p)
        return true; /* static */
    n_read = p->p_filesz < sizeof(dynamic) ? p->p_filesz : sizeof(dynamic);
    n_read = read_at(fd, dynamic, n_read, p->p_offset) / sizeof(dynamic[0]);
    for (n = 0; n < n_read && dynamic[n].d_tag != DT_NULL; n++)
        if (dynamic[n].d_tag == DT_STRTAB)
            address = dynamic[n].d_un.d_ptr;
        else if (dynamic[n].d_tag == DT_STRSZ)
            bytes = dynamic[n].d_un.d_val;
    if (!find_offset(&h, address, &strings))
        return n == 0;
    for (size_t i = 0; i < n; i++)
        if (dynamic[i].d_tag == DT_NEEDED && dynamic[i].d_un.d_val <= UINT32_MAX &&
            read_text(fd, strings + dynamic[i].d_un.d_val, name, sizeof(name)))
            needs->library(needs->ctx, name);
    needs->leads_on = leads_on(fd, strings, bytes);
    return true;
}
