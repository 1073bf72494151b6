/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that prints where it is bound: the kernel's answer, and pmirun's variable; with
 * an argument also PMI_process_mapping, which it asks for by PMI-1. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_CPUS 8192

static char line[4096];

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value ? value : "none";
}

/* As the report has them: 0-3,8. */
static void print_affinity(void)
{
    cpu_set_t *set = CPU_ALLOC(MAX_CPUS);
    const size_t bytes = CPU_ALLOC_SIZE(MAX_CPUS);
    const char *comma = "";

    if (!set || sched_getaffinity(0, bytes, set) != 0) {
        perror("sched_getaffinity");
        exit(1);
    }
    for (int i = 0; i < MAX_CPUS; i++) {
        int last = i;

        if (!CPU_ISSET_S(i, bytes, set))
            continue;
        while (last + 1 < MAX_CPUS && CPU_ISSET_S(last + 1, bytes, set))
            last++;
        printf(last > i ? "%s%d-%d" : "%s%d", comma, i, last);
        comma = ",";
        i = last;
    }
    CPU_FREE(set);
}

/* Sends a request, reads the answer into `line`, and returns the value behind `key`. */
static char *ask(FILE *pmi, const char *request, const char *key)
{
    char *value;

    if (fprintf(pmi, "%s\n", request) < 0 || fflush(pmi) != 0 || !fgets(line, sizeof(line), pmi) ||
        !(value = strstr(line, key))) {
        fprintf(stderr, "%s: no %s in the answer: %s\n", request, key, line);
        exit(1);
    }
    line[strcspn(line, "\n")] = '\0';
    return value + strlen(key);
}

static void print_mapping(void)
{
    const char *fd = getenv("PMI_FD");
    FILE *pmi = fd ? fdopen(atoi(fd), "r+") : NULL;
    char get[512], *name;

    if (!pmi) {
        perror("PMI_FD");
        exit(1);
    }
    ask(pmi, "cmd=init pmi_version=1 pmi_subversion=1", "rc=0");
    name = ask(pmi, "cmd=get_my_kvsname", "kvsname=");
    name[strcspn(name, " ")] = '\0';
    snprintf(get, sizeof(get), "cmd=get kvsname=%s key=PMI_process_mapping", name);
    printf(" mapping=%s", ask(pmi, get, "value="));
    ask(pmi, "cmd=finalize", "cmd=finalize_ack");
}

int main(int argc, char **argv)
{
    printf("rank=%s cpus=", variable("PMI_RANK"));
    print_affinity();
    printf(" variable=%s", variable("PMIRUN_CPUSET"));
    if (argc > 1)
        print_mapping();
    puts("");
    return 0;
}
