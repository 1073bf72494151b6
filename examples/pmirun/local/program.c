/* SPDX-License-Identifier: BSD-3-Clause */
/* Which file a program's name means. */
#define _GNU_SOURCE
#include "program.h"

#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A path of the program as it is seen from here; to be freed. */
static char *full_path(const struct app *app, const char *path)
{
    return path[0] == '/' || !app->wdir ? xprintf("%s", path) : xprintf("%s/%s", app->wdir, path);
}

static int check_program(const struct app *app, const char *path)
{
    char *full = full_path(app, path);
    struct stat st;
    int err = 0;

    if (stat(full, &st) != 0)
        err = errno;
    else if (!S_ISREG(st.st_mode) || faccessat(AT_FDCWD, full, X_OK, AT_EACCESS) != 0)
        err = EACCES;
    free(full);
    return err;
}

static const char *app_getenv(const struct app *app, const char *name)
{
    size_t len = strlen(name);

    for (uint32_t i = app->n_sets; i-- > 0;)
        if (strncmp(app->sets[i], name, len) == 0 && app->sets[i][len] == '=')
            return app->sets[i] + len + 1;
    return getenv(name);
}

int program_resolve(struct app *app)
{
    const char *name = app->argv[0], *end;
    const char *p = app->search ? app->search : app_getenv(app, "PATH");
    int err = ENOENT, rc;
    struct stat st;

    if (app->wdir && (stat(app->wdir, &st) != 0 || !S_ISDIR(st.st_mode)))
        return NO_WDIR;
    if (name[0] == '\0')
        return ENOENT;
    if (strchr(name, '/')) {
        app->path = xprintf("%s", name);
        return check_program(app, name);
    }
    for (p = p ? p : "/usr/local/bin:/usr/bin:/bin"; p; p = *end ? end + 1 : NULL) {
        end = strchrnul(p, ':');
        app->path = xprintf("%.*s/%s", end > p ? (int)(end - p) : 1, end > p ? p : ".", name);
        rc = check_program(app, app->path);
        if (rc == 0)
            return 0;
        if (rc == EACCES)
            err = rc;
        free(app->path);
    }
    /* As under other launchers, a plain name may also be a file of the working directory. */
    app->path = xprintf("./%s", name);
    rc = check_program(app, app->path);
    return rc == ENOENT ? err : rc;
}

/* Why a file is no program. */
static const char *explain_access(const struct app *app, int err)
{
    char *full = full_path(app, app->path ? app->path : "");
    struct stat st;
    const int rc = stat(full, &st);

    free(full);
    return err != EACCES || rc != 0 ? strerror(err)
           : S_ISDIR(st.st_mode)    ? "it is a directory"
           : !(st.st_mode & 0111)   ? "it is not executable (chmod +x)"
                                    : strerror(err);
}

int program_find(struct app *app, char **why)
{
    int err = program_resolve(app);

    if (err == NO_WDIR)
        *why = xprintf("cannot start %s: %s: no such working directory", app->argv[0], app->wdir);
    else if (err)
        *why = xprintf("cannot start %s: %s", app->argv[0], explain_access(app, err));
    return err == 0 ? 0 : err == ENOENT ? STATUS_NOTFOUND : STATUS_NOEXEC;
}

/* Does the file begin like text? A shell must not get a broken binary. */
static bool is_text(const struct app *app)
{
    char *full = full_path(app, app->path);
    int fd = open(full, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* it may have become a FIFO */
    char head[128];
    ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof(head));

    free(full);
    if (fd >= 0)
        close(fd);
    return n >= 0 && !memchr(head, '\0', (size_t)n) && (n < 4 || memcmp(head, "\177ELF", 4) != 0);
}

char **program_shell_argv(const struct app *app)
{
    const size_t n = strings_count(app->argv);
    char **v;

    if (!is_text(app))
        return NULL;
    v = xrealloc(NULL, (n + 2) * sizeof(char *));
    v[0] = app->argv[0];
    v[1] = app->path;
    memcpy(v + 2, app->argv + 1, n * sizeof(char *));
    return v;
}
