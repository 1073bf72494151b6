/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * raw MESSAGE...: sends exactly these messages on PMI_FD, and reads one reply to each. A message
 * that begins with `2' goes as PMI-2, its length put before the rest; any other is a line. With `@'
 * in front, no reply is awaited. %J stands for the job's name (a PMI-2 jobid or a PMI-1 kvsname)
 * that the server gave last.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char job[512];

static void keep_job(char *reply)
{
    char *p = strstr(reply, "jobid=");

    if (!p) {
        p = strstr(reply, "kvsname=");
    }
    if (p) {
        p = strchr(p, '=') + 1;
        p[strcspn(p, ";\n ")] = '\0';
        snprintf(job, sizeof job, "%s", p);
    }
}

static void must_read(int fd, char *p, size_t n)
{
    while (n > 0) {
        ssize_t r = read(fd, p, n);

        if (r <= 0) {
            exit(3);
        }
        p += r;
        n -= (size_t)r;
    }
}

int main(int argc, char **argv)
{
    int fd = atoi(getenv("PMI_FD")), i;

    alarm(10);
    for (i = 1; i < argc; i++) {
        const char *m = argv[i], *at;
        int quiet = *m == '@', v2 = m[quiet] == '2', n;
        char out[8192], in[8192], text[8000];

        m += quiet + v2;
        at = strstr(m, "%J");
        if (at) {
            snprintf(text, sizeof text, "%.*s%s%s", (int)(at - m), m, job, at + 2);
            m = text;
        }
        n = v2 ? snprintf(out, sizeof out, "%6d%s", (int)strlen(m), m)
               : snprintf(out, sizeof out, "%s\n", m);
        if (write(fd, out, (size_t)n) != n) {
            return 2;
        }
        if (quiet) {
            continue;
        }
        if (v2) {
            must_read(fd, in, 6);
            in[6] = '\0';
            n = atoi(in);
            if (n < 0 || n >= (int)sizeof in) {
                return 4;
            }
            must_read(fd, in, (size_t)n);
        } else {
            for (n = 0; n == 0 || (in[n - 1] != '\n' && n < (int)sizeof in - 1); n++) {
                must_read(fd, in + n, 1);
            }
        }
        in[n] = '\0';
        keep_job(in);
    }
    return 0;
}
