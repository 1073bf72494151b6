/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kvlog FILE [MILLISECONDS]: a table of keys and values in memory that survives kill -9 and power
 * cuts. The table is the program's own; storwin_adopt() brings back its last commit, and every
 * second, or after the given milliseconds, storwin_commit_start() makes durable what changed, while
 * commands continue.
 * kvlog --info FILE prints what the file holds, also while another kvlog has it open.
 *
 * Commands come on standard input: `set KEY VALUE`, `get KEY`, `count`. When a commit begins, kvlog
 * prints `committing`; when it is durable, `committed GENERATION ENTRIES`. What was set before that
 * `committing` is then never lost. Of what was set since, a crash leaves all up to the next
 * `committing`, or nothing.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <storwin.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define N_SLOTS 16384u /* a power of 2 */

/* No pointers in it: it comes back in another process, at another address. */
struct entry {
    char key[32], value[96];
};
static struct {
    uint64_t n_entries;
    struct entry slots[N_SLOTS];
} table __attribute__((aligned(4096)));

static int changed;        /* since the last commit */
static int pending;        /* a commit is being written ... */
static uint64_t n_pending; /* ... of so many entries */

/* The place of the key, or a free one; NULL: the table is full. */
static struct entry *find_slot(const char *key)
{
    uint32_t hash = 2166136261u;

    for (const char *p = key; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619u;
    for (uint32_t i = 0; i < N_SLOTS; i++) {
        struct entry *e = &table.slots[(hash + i) % N_SLOTS];

        if (!e->key[0] || strcmp(e->key, key) == 0)
            return e;
    }
    return NULL;
}

static void run_command(char *line)
{
    char *word = strtok(line, " \t"), *key = strtok(NULL, " \t"), *value = strtok(NULL, "");
    struct entry *e = key && strlen(key) < sizeof(e->key) ? find_slot(key) : NULL;

    if (word && strcmp(word, "count") == 0 && !key) {
        printf("count %" PRIu64 "\n", table.n_entries);
    } else if (word && strcmp(word, "get") == 0 && e && !value) {
        printf("%s\n", e->value);
    } else if (word && strcmp(word, "set") == 0 && e && value && strlen(value) < sizeof(e->value)) {
        table.n_entries += !e->key[0];
        strcpy(e->key, key);
        strcpy(e->value, value);
        changed = 1;
    } else if (word) {
        fprintf(stderr,
                "kvlog: usage: `set KEY VALUE` (31 and 95 bytes, %u keys), `get KEY` or `count`\n",
                N_SLOTS);
    }
}

/* Begins to commit the table as it is now, if it has changed. */
static int start_commit(struct storwin_window *win)
{
    struct storwin_error err;

    if (!changed)
        return 0;
    if (storwin_commit_start(win, &err) < 0) {
        fprintf(stderr, "kvlog: commit: %s\n", err.text);
        return -1;
    }
    puts("committing");
    n_pending = table.n_entries;
    pending = 1;
    changed = 0;
    return 0;
}

/* Waits for that commit, if there is one. */
static int finish_commit(struct storwin_window *win)
{
    struct storwin_info info = {.size = sizeof(info)};
    struct storwin_error err;

    if (!pending)
        return 0;
    pending = 0;
    if (storwin_commit_wait(win, &err) < 0) {
        fprintf(stderr, "kvlog: commit: %s\n", err.text);
        return -1;
    }
    storwin_query(win, &info);
    printf("committed %" PRIu64 " %" PRIu64 "\n", info.generation, n_pending);
    return 0;
}

/* Executes the lines read so far. 0: the end of the input. */
static int more_input(void)
{
    static char text[4096];
    static size_t have;
    ssize_t n = read(0, text + have, sizeof(text) - 1 - have);
    char *line = text, *end;

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return 1;
    if (n < 0)
        perror("kvlog: standard input"); /* and half a line is no command */
    if (n < 0 || (n == 0 && have == 0))
        return 0;
    if (n == 0)
        text[have] = '\n'; /* the last line has none */
    have += n > 0 ? (size_t)n : 1;
    for (; (end = memchr(line, '\n', (size_t)(text + have - line))); line = end + 1) {
        *end = '\0';
        if (strlen(line) == (size_t)(end - line))
            run_command(line);
        else
            fprintf(stderr, "kvlog: a line with a NUL, or of over %zu bytes, is no command\n",
                    sizeof(text) - 2);
    }
    have -= (size_t)(line - text);
    memmove(text, line, have);
    if (have == sizeof(text) - 1) {
        /* Too long: the rest of the line, behind this NUL, is refused as well. */
        text[0] = '\0';
        have = 1;
    }
    return 1;
}

/* storwin_file_query() needs no lock and no table: it reads the file's records only. */
static int print_info(const struct storwin_opts *opts)
{
    struct storwin_info_file info = {.size = sizeof(info)};
    struct storwin_error err;

    if (storwin_file_query(opts, &info, &err) < 0) {
        fprintf(stderr, "kvlog: %s: %s\n", opts->filename, err.text);
        return 1;
    }
    printf("generation %" PRIu64 ", before it %" PRIu64 ", %" PRIu64 " bytes of %zu%s\n",
           info.generation, info.older_generation, info.bytes, sizeof(table),
           info.damaged ? "; a record is damaged" : "");
    return 0;
}

static long now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long)(t.tv_sec * 1000 + t.tv_nsec / 1000000);
}

int main(int argc, char **argv)
{
    char *rest = "";
    const int info = argc == 3 && strcmp(argv[1], "--info") == 0;
    const long pause = argc == 3 && !info ? strtol(argv[2], &rest, 10) : 1000;
    struct pollfd fds[2] = {{.fd = 0, .events = POLLIN}, {.events = POLLIN}};
    struct storwin_opts opts;
    struct storwin_window *win;
    struct storwin_error err;
    int going = 1;

    if (argc < 2 || argc > 3 || *rest || pause <= 0 || pause > INT_MAX) {
        fprintf(stderr, "usage: kvlog FILE [MILLISECONDS, 1 to %d], or kvlog --info FILE\n",
                INT_MAX);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    storwin_opts_init(&opts);
    opts.alloc_type = STORWIN_STORAGE;
    opts.filename = argv[info ? 2 : 1];
    if (info)
        return print_info(&opts);
    if (storwin_adopt(&table, sizeof(table), &opts, &win, &err) < 0) {
        fprintf(stderr, "kvlog: %s: %s\n", argv[1], err.text);
        return 1;
    }
    fds[1].fd = storwin_commit_fd(win, &err);
    for (long next = now_ms() + pause, now; going; next = now_ms() + pause) {
        while (going && (now = now_ms()) < next) {
            if (poll(fds, 2, (int)(next - now)) <= 0)
                continue;
            if (fds[0].revents)
                going = more_input();
            if (fds[1].revents && finish_commit(win) < 0)
                return 1;
        }
        if (finish_commit(win) < 0 || start_commit(win) < 0)
            return 1;
    }
    return finish_commit(win) < 0 || storwin_free(win, NULL) < 0;
}
