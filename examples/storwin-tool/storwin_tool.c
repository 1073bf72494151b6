/* SPDX-License-Identifier: BSD-3-Clause */
/* storwin-tool: shows, verifies, copies and exports the commits of a file, beside its writer. */
#include <err.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <storwin.h>

static const char usage_text[] =
    "usage: storwin-tool [OPTION...] info|verify FILE\n"
    "       storwin-tool [OPTION...] copy|export FILE NEW\n"
    "  --generation N   the newest commit up to N, instead of the newest\n"
    "  --offset BYTES   where in FILE the window begins\n"
    "  --hints TEXT     copy: key=value;... for NEW, such as storage_alloc_atomic=journal\n"
    "  --help           this text\n";

static struct storwin_error why;

/* Ends the program if a call of the library failed. */
static void require_call(int rc)
{
    if (rc < 0)
        errx(1, "%s%s%s", why.hint, why.hint[0] ? ": " : "", why.text);
}

static void fail_usage(const char *what, const char *word)
{
    warnx("%s%s", what, word);
    fputs(usage_text, stderr);
    exit(2);
}

/* Prints the generations that the records name, newest first, or verifies them. Returns whether the
 * newest is damaged, or perhaps lost with its record. */
static int list_generations(struct storwin_opts opts, int verify)
{
    struct storwin_info_file file = {.size = sizeof(file)};
    struct storwin_info info = {.size = sizeof(info)};
    struct storwin_window *win;
    int damaged, rc = 0;

    require_call(storwin_file_query(&opts, &file, &why));
    printf("keeps at least %u generations, version %" PRIu64 "%s\n", file.generations,
           file.app_version, file.damaged ? "; both copies of a record are damaged" : "");
    damaged = verify ? -1 : 0;
    while (rc == 0) {
        info.generation = file.generation;
        if (verify && (rc = storwin_open_read(&opts, &win, &why)) == 0) {
            (void)storwin_query(win, &info); /* the newest may be a newer one by now */
            (void)storwin_free(win, NULL);
        }
        printf("generation %" PRIu64 ": ", info.generation);
        if (verify)
            puts(rc < 0 ? why.text : "whole");
        else
            printf("%" PRIu64 " bytes\n", file.bytes);
        damaged = damaged < 0 ? rc < 0 || file.damaged : damaged;
        opts.generation = file.older_generation;
        rc = opts.generation == 0 ? 1 : storwin_file_query(&opts, &file, &why);
    }
    return damaged;
}

/* Writes the bytes of a commit, and nothing else, to a new file. */
static void export_raw(const struct storwin_window *win, uint64_t bytes, const char *path)
{
    FILE *file = fopen(path, "wxe");

    if (!file)
        err(1, "create %s", path);
    if (fwrite(storwin_base(win), 1, (size_t)bytes, file) != bytes || fflush(file) != 0 ||
        fsync(fileno(file)) < 0) {
        warn("write %s", path);
        (void)unlink(path);
        exit(1);
    }
    fclose(file);
}

/* Makes a new file with this commit alone, under its generation and version. */
static void copy_commit(const struct storwin_window *win, const struct storwin_info *info,
                        const char *path, char *text)
{
    struct storwin_hint hints[16];
    struct storwin_window *new;
    struct storwin_opts opts;
    int rc, n = storwin_hints_split(text, hints, 16, &why);

    require_call(n);
    storwin_opts_init(&opts);
    opts.pager = STORWIN_PAGER_RESIDENT;
    opts.atomic = STORWIN_ATOMIC_AUTO;
    opts.app_version = info->app_version;
    for (int i = 0; i < n; i++) {
        rc = storwin_opts_set(&opts, hints[i].key, hints[i].value, &why);
        require_call(rc);
        if (rc == STORWIN_UNKNOWN)
            fail_usage("unknown hint ", hints[i].key);
    }
    /* Whatever the hints say, the file receives the whole commit, and stays. */
    opts.alloc_type = STORWIN_STORAGE;
    opts.factor_ppb = STORWIN_FACTOR_ONE;
    opts.filename = path;
    opts.flags = (opts.flags & ~STORWIN_UNLINK) | STORWIN_DISCARD;
    if (access(path, F_OK) == 0)
        errx(1, "create %s: it exists", path);
    require_call(storwin_alloc(&opts, info->bytes, &new, &why));
    memcpy(storwin_base(new), storwin_base(win), (size_t)info->bytes);
    rc = storwin_commit_generation(new, info->generation, &why);
    (void)storwin_free(new, NULL);
    if (rc < 0)
        (void)unlink(path);
    require_call(rc);
}

/* Reads the options before the command. Returns the index of the command; *hints is NULL after
 * --help. */
static int parse_options(int argc, char **argv, struct storwin_opts *opts, char **hints)
{
    static const struct option options[] = {{"generation", 1, NULL, 'g'},
                                            {"offset", 1, NULL, 'o'},
                                            {"hints", 1, NULL, 'H'},
                                            {"help", 0, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};

    for (int c; (c = getopt_long(argc, argv, "+", options, NULL)) != -1;) {
        if (c == 'h')
            *hints = NULL;
        else if (c == '?')
            fail_usage("wrong option", "");
        else if (c == 'H')
            *hints = optarg;
        else
            require_call(storwin_opts_set(
                opts, c == 'g' ? "storage_alloc_generation" : "storage_alloc_offset", optarg,
                &why));
    }
    return optind;
}

/* Runs a command. Returns the status of the program. */
static int run_command(char **args, int n_args, struct storwin_opts *opts, char *hints)
{
    const char *const names[] = {"info", "verify", "export", "copy"};
    struct storwin_info info = {.size = sizeof(info)};
    struct storwin_window *win;
    int i = 0;

    while (n_args > 0 && i < 4 && strcmp(args[0], names[i]) != 0)
        i++;
    if (i == 4 || n_args != 2 + i / 2)
        fail_usage("a command and its files are needed", "");
    opts->filename = args[1];
    if (i < 2)
        return list_generations(*opts, i == 1);
    require_call(storwin_open_read(opts, &win, &why));
    (void)storwin_query(win, &info);
    if (i == 3)
        copy_commit(win, &info, args[2], hints);
    else
        export_raw(win, info.bytes, args[2]);
    printf("generation %" PRIu64 ": %" PRIu64 " bytes\n", info.generation, info.bytes);
    (void)storwin_free(win, NULL);
    return 0;
}

int main(int argc, char **argv)
{
    char none[] = "", *hints = none;
    struct storwin_opts opts;
    int at, rc;

    storwin_opts_init(&opts);
    at = parse_options(argc, argv, &opts, &hints);
    rc = hints ? run_command(argv + at, argc - at, &opts, hints) : fputs(usage_text, stdout) < 0;
    if (fflush(stdout) != 0 || ferror(stdout))
        err(1, "standard output");
    return rc;
}
