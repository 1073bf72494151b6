/* SPDX-License-Identifier: BSD-3-Clause */
/* A program's needed libraries, read from ELF files: valid ones, truncated ones, and ones with each
 * number falsified. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../examples/pmirun/local/elf_needed.h"

#define BASE  0x400000u /* address of the file's first byte */
#define NAMES 4096u     /* offset of the string table */

/* The parts of a file that are read, as a linker writes them. */
struct file {
    ElfW(Ehdr) e;
    ElfW(Phdr) p[3]; /* PT_LOAD, PT_INTERP, PT_DYNAMIC */
    char interp[32];
    ElfW(Dyn) dyn[8];
    char fill[4096]; /* to NAMES and beyond */
};

static union {
    struct file f;
    unsigned char bytes[8192];
} image;

static size_t image_bytes;

static struct seen {
    unsigned n;
    char last[NEEDS_NAME_BYTES];
    char all[4096];
} seen;

static void note(void *ctx, const char *name)
{
    struct seen *s = ctx;

    assert_true(strlen(name) < NEEDS_NAME_BYTES);
    s->n++;
    snprintf(s->last, sizeof(s->last), "%s", name);
    if (strlen(s->all) + strlen(name) + 2 < sizeof(s->all))
        strcat(strcat(s->all, name), " ");
}

static void make_image(void)
{
    static const char names[] = "\0libone.so.1\0libtwo.so.2\0";
    struct file *f = &image.f;

    memset(&image, 0, sizeof(image));
    memcpy(f->e.e_ident, ELFMAG, SELFMAG);
    f->e.e_ident[EI_CLASS] = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
    f->e.e_ident[EI_DATA] = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
    f->e.e_phoff = offsetof(struct file, p);
    f->e.e_phentsize = sizeof(f->p[0]);
    f->e.e_phnum = 3;
    strcpy(f->interp, "/lib/ld.so");
    f->p[0] = (ElfW(Phdr)){.p_type = PT_LOAD, .p_vaddr = BASE, .p_filesz = sizeof(image)};
    f->p[1] = (ElfW(Phdr)){.p_type = PT_INTERP,
                           .p_offset = offsetof(struct file, interp),
                           .p_filesz = sizeof(f->interp)};
    f->p[2] = (ElfW(Phdr)){
        .p_type = PT_DYNAMIC, .p_offset = offsetof(struct file, dyn), .p_filesz = sizeof(f->dyn)};
    f->dyn[0].d_tag = DT_NEEDED;
    f->dyn[0].d_un.d_val = 1;
    f->dyn[1].d_tag = DT_STRTAB;
    f->dyn[1].d_un.d_ptr = BASE + NAMES;
    f->dyn[2].d_tag = DT_NEEDED;
    f->dyn[2].d_un.d_val = 13;
    f->dyn[3].d_tag = DT_STRSZ;
    f->dyn[3].d_un.d_val = sizeof(names);
    memcpy(image.bytes + NAMES, names, sizeof(names));
    image_bytes = NAMES + sizeof(names);
}

static bool read_bytes(const void *p, size_t n, struct needs *needs)
{
    int fd = memfd_create("way_needs", MFD_CLOEXEC);
    bool ok;

    assert_true(fd >= 0 && write(fd, p, n) == (ssize_t)n);
    memset(&seen, 0, sizeof(seen));
    *needs = (struct needs){.library = note, .ctx = &seen};
    ok = needs_read(fd, needs);
    close(fd);
    assert_non_null(memchr(needs->interp, '\0', sizeof(needs->interp)));
    return ok;
}

static bool read_image(struct needs *needs)
{
    return read_bytes(&image, image_bytes, needs);
}

static void test_good(void **state)
{
    struct needs needs;

    make_image();
    assert_true(read_image(&needs));
    assert_string_equal(needs.interp, "/lib/ld.so");
    assert_string_equal(seen.all, "libone.so.1 libtwo.so.2 ");
    image.f.e.e_phnum = 2; /* no dynamic section: static */
    assert_true(read_image(&needs));
    assert_int_equal(seen.n, 0);
    image.f.e.e_phnum = 1; /* nor anything that loads it */
    assert_true(read_image(&needs));
    assert_string_equal(needs.interp, "");
}

static void test_self(void **state)
{
    struct needs needs = {.library = note, .ctx = &seen};
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

    memset(&seen, 0, sizeof(seen));
    assert_true(needs_read(fd, &needs));
    close(fd);
    assert_int_equal(access(needs.interp, X_OK), 0);
    assert_non_null(strstr(seen.all, "libcmocka.so"));
}

static void test_no_elf(void **state)
{
    static const char script[] = "#!/bin/sh\nexec true\n";
    struct needs needs;

    assert_false(read_bytes("", 0, &needs));
    assert_false(read_bytes(script, sizeof(script) - 1, &needs));
    make_image();
    image.f.e.e_ident[EI_CLASS] = sizeof(void *) == 8 ? ELFCLASS32 : ELFCLASS64;
    assert_false(read_image(&needs));
    make_image();
    image.f.e.e_ident[EI_DATA] ^= ELFDATA2LSB ^ ELFDATA2MSB;
    assert_false(read_image(&needs));
    assert_int_equal(seen.n, 0);
}

/* Names of functions that start a program or load a library, alone or as the end of another. */
static void test_leads_on(void **state)
{
    static const struct {
        const char *name;
        bool leads_on;
    } cases[] = {{"execve", true}, {"posix_spawnp", true}, {"dlopen", true},   {"my_system", true},
                 {"write", false}, {"execute", false},     {"dlopened", false}};
    struct needs needs;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        make_image();
        assert_true(read_image(&needs));
        assert_false(needs.leads_on);
        strcpy((char *)image.bytes + image_bytes, cases[i].name);
        image_bytes += strlen(cases[i].name) + 1;
        image.f.dyn[3].d_un.d_val = image_bytes - NAMES;
        assert_true(read_image(&needs));
        assert_int_equal(needs.leads_on, cases[i].leads_on);
        image_bytes--; /* the table's last byte is missing: it cannot be told */
        assert_true(read_image(&needs));
        assert_true(needs.leads_on);
    }
    make_image();
    image.f.dyn[3].d_un.d_val = NEEDS_NAMES_BYTES + 1;
    assert_true(read_image(&needs));
    assert_true(needs.leads_on);
}

/* At every length: whole names or none. */
static void test_cut(void **state)
{
    struct needs needs;
    size_t n, known = 0;

    make_image();
    for (n = 0; n <= image_bytes; n++) {
        bool ok = read_bytes(&image, n, &needs);

        assert_true(!ok || n > offsetof(struct file, interp) + strlen(image.f.interp));
        assert_true(seen.n >= known && seen.n <= 2);
        known = seen.n;
    }
    assert_int_equal(known, 2);
    assert_true(read_image(&needs));
}

static void test_lies(void **state)
{
    static const uint64_t lies[] = {0,          1,          4095,      8191,      8192,
                                    0x7fffffff, 0xffffffff, INT64_MAX, INT64_MIN, UINT64_MAX};
    struct needs needs;

    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        ElfW(Off) lie = (ElfW(Off))lies[i];

#define LIE(field)                                                                                 \
    do {                                                                                           \
        make_image();                                                                              \
        image.f.field = (__typeof__(image.f.field))lie;                                            \
        read_image(&needs);                                                                        \
        assert_true(seen.n <= NEEDS_MAX);                                                          \
    } while (0)
        LIE(e.e_phoff);
        LIE(e.e_phnum);
        LIE(p[0].p_vaddr);
        LIE(p[0].p_offset);
        LIE(p[0].p_filesz);
        LIE(p[1].p_offset);
        LIE(p[2].p_offset);
        LIE(p[2].p_filesz);
        LIE(dyn[0].d_un.d_val);
        LIE(dyn[1].d_un.d_ptr);
        LIE(dyn[2].d_tag);
        LIE(dyn[3].d_un.d_val);
    }
    make_image();
    image.f.e.e_phentsize = 1;
    assert_false(read_image(&needs));
}

/* A name of more than fits, an interpreter of more than fits, more libraries than are read. */
static void test_long(void **state)
{
    static struct {
        struct file f;
        ElfW(Dyn) dyn[3 * NEEDS_MAX];
    } big;
    struct needs needs;

    make_image();
    memset(image.bytes + NAMES + 1, 'x', 300);
    image.f.dyn[2].d_un.d_val = 1 + 300 - (NEEDS_NAME_BYTES - 1);
    image_bytes = sizeof(image);
    assert_true(read_image(&needs));
    assert_int_equal(seen.n, 1); /* the second */
    assert_int_equal(strlen(seen.last), NEEDS_NAME_BYTES - 1);

    make_image();
    image.f.p[1].p_offset = sizeof(image) - 512;
    memset(image.bytes + sizeof(image) - 512, 'x', 512);
    image_bytes = sizeof(image);
    assert_false(read_image(&needs));

    make_image();
    memcpy(&big.f, &image, sizeof(big.f));
    memcpy((char *)&big + NAMES, image.bytes + NAMES, 64);
    for (size_t i = 0; i < 3 * NEEDS_MAX; i++) {
        big.dyn[i].d_tag = i ? DT_NEEDED : DT_STRTAB;
        big.dyn[i].d_un.d_val = i ? 1 : BASE + NAMES;
    }
    big.f.p[2].p_offset = offsetof(__typeof__(big), dyn);
    big.f.p[2].p_filesz = sizeof(big.dyn);
    assert_true(read_bytes(&big, sizeof(big), &needs));
    assert_int_equal(seen.n, NEEDS_MAX - 1);
}

static void test_random(void **state)
{
    struct needs needs;
    unsigned seed = 1;

    for (int i = 0; i < 20000; i++) {
        make_image();
        for (int k = rand_r(&seed) % 4; k >= 0; k--)
            image.bytes[(unsigned)rand_r(&seed) % offsetof(struct file, fill)] ^=
                (unsigned char)(1 << rand_r(&seed) % 8);
        read_image(&needs);
        assert_true(seen.n <= NEEDS_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),   cmocka_unit_test(test_self),
        cmocka_unit_test(test_no_elf), cmocka_unit_test(test_cut),
        cmocka_unit_test(test_lies),   cmocka_unit_test(test_long),
        cmocka_unit_test(test_random), cmocka_unit_test(test_leads_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
