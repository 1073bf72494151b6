/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Templates, and batch systems' lists of nodes: valid and invalid lists of each kind, then valid
 * ones with random changes, which must be accepted or refused with a reason.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../examples/pmirun/allocation.h"
#include "../../examples/pmirun/local/util.h"
#include "../../examples/pmirun/local/output.h"
#include "../../examples/pmirun/local/loop.h"
#include "../../examples/pmirun/local/progress.h"
#include "../../examples/pmirun/template.h"

/* Nothing is drawn here. */
void progress_clear(void)
{
}

static const char *const variables[] = {
    "SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE", "SLURM_STEP_ID",     "SLURM_STEP_NUM_TASKS",
    "PBS_NODEFILE",       "LSB_MCPU_HOSTS",       "LSB_DJOB_HOSTFILE", "PE_HOSTFILE"};

struct loop loop; /* by which util.c counts time */

/* The words for host h and the program /p, joined by |, or the error. The caller frees it. */
static char *words_of(const char *text, const char *program)
{
    struct template t;
    char *all = template_parse(&t, text), **v;

    if (all)
        return all;
    v = template_argv(&t, "h", program);
    for (char **p = v; *p; p++) {
        all = xappend(all, "%s%s", p == v ? "" : "|", *p);
        free(*p);
    }
    free(v);
    template_free(&t);
    return all;
}

static void check_words(const char *text, const char *program, const char *want)
{
    char *got = words_of(text, program);

    assert_string_equal(got, want);
    free(got);
}

static void test_words(void **state)
{
    char long_one[TEMPLATE_BYTES + 2];

    check_words("kubectl exec -i %h -- %c", "/p", "kubectl|exec|-i|h|--|/p|--agent");
    check_words("  a\t%h\n%c ", "/p", "a|h|/p|--agent");
    check_words("%c", "/p", "/p|--agent");
    check_words("ssh %h 'exec %c'", "/p", "ssh|h|exec '/p' --agent");
    check_words("sh -c \"%c\"", "/p q", "sh|-c|'/p q' --agent");
    check_words("sh -c '%c'", "/it's", "sh|-c|'/it'\\''s' --agent");
    check_words("x %h.d%%h%h %c", "/p", "x|h.d%hh|/p|--agent");
    check_words("a 'b  c' \"d 'e\" f\\ g '' %c", "/p", "a|b  c|d 'e|f g||/p|--agent");
    check_words("a \"\\\"\\\\\\n\" '\\' \\' %c", "/p", "a|\"\\\\n|\\|'|/p|--agent");
    check_words("a;b $(c) `d` *|& %c", "/p", "a;b|$(c)|`d`|*|&|/p|--agent"); /* no shell */
    check_words("a'b'\"c\"d %c", "/p", "abcd|/p|--agent");
    check_words("", "/p", "it lacks %c, which stands for the agent's command");
    check_words("kubectl exec %h %%c", "/p", "it lacks %c, which stands for the agent's command");
    check_words("a 'b %c", "/p", "a quote in it is not closed");
    check_words("a %c \"b'", "/p", "a quote in it is not closed");
    check_words("date +%s %c", "/p",
                "%s is unknown: %h is the host, %c the agent's command, %% a percent sign");
    check_words("%c 5%", "/p",
                "%  is unknown: %h is the host, %c the agent's command, %% a percent sign");
    check_words("a\\", "/p", "it lacks %c, which stands for the agent's command");
    memset(long_one, 'a', sizeof(long_one));
    memcpy(long_one, "%c ", 3);
    long_one[TEMPLATE_BYTES + 1] = '\0';
    check_words(long_one, "/p", "it is longer than 4096 bytes");
    long_one[TEMPLATE_BYTES] = '\0';
    free(words_of(long_one, "/p"));
}

/* ---- allocations ---- */

static void forget(void)
{
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        unsetenv(variables[i]);
}

/* The hosts found, "a:2 b:1", without slots of 0, or the error. The caller frees it. */
static char *found(void)
{
    struct allocation a;
    char *all = allocation_find(&a);

    if (all) {
        assert_null(a.hosts);
        return all;
    }
    for (uint32_t i = 0; i < a.n_hosts; i++) {
        assert_true(host_is_name(a.hosts[i], strlen(a.hosts[i])));
        all = xappend(all, "%s%s", i ? " " : "", a.hosts[i]);
        if (a.slots[i])
            all = xappend(all, ":%u", a.slots[i]);
    }
    allocation_free(&a);
    return all ? all : xprintf("nothing");
}

static void check_found(const char *want)
{
    char *got = found();

    assert_string_equal(got, want);
    free(got);
}

static void check_slurm(const char *names, const char *tasks, const char *want)
{
    forget();
    setenv("SLURM_JOB_NODELIST", names, 1);
    if (tasks)
        setenv("SLURM_TASKS_PER_NODE", tasks, 1);
    check_found(want);
}

static void test_slurm(void **state)
{
    check_slurm("n0", NULL, "n0");
    check_slurm("n[0-2,7],m07", NULL, "n0 n1 n2 n7 m07");
    check_slurm("n[08-11]", NULL, "n08 n09 n10 n11");
    check_slurm("n[8-11]", NULL, "n8 n9 n10 n11");
    check_slurm("r[1-2]n[0-1]-ib,x", NULL, "r1n0-ib r1n1-ib r2n0-ib r2n1-ib x");
    check_slurm("n[0-3]", "2(x3),1", "n0:2 n1:2 n2:2 n3:1");
    check_slurm("n[0-1]", "16(x2)", "n0:16 n1:16");
    check_slurm("", NULL, "nothing");
    check_slurm("n[0-", NULL, "SLURM_JOB_NODELIST=n[0-: a '[' has no ']'");
    check_slurm("n[0-]", NULL, "SLURM_JOB_NODELIST=n[0-]: a range has no end");
    check_slurm("n[]", NULL, "SLURM_JOB_NODELIST=n[]: a range does not begin with a number");
    check_slurm("n[1,]", NULL, "SLURM_JOB_NODELIST=n[1,]: a range does not begin with a number");
    check_slurm("n[1;2]", NULL, "SLURM_JOB_NODELIST=n[1;2]: unexpected ';' in a range");
    check_slurm("n[3-1]", NULL, "SLURM_JOB_NODELIST=n[3-1]: the range 3-1 is invalid or too long");
    check_slurm("n[0-65536]", NULL,
                "SLURM_JOB_NODELIST=n[0-65536]: the range 0-65536 is invalid or too long");
    check_slurm("n[99999999999999999999]", NULL,
                "SLURM_JOB_NODELIST=n[99999999999999999999]: the range 99999999999999999999 is "
                "invalid or too long");
    check_slurm("a[0-299][0-299]", NULL,
                "SLURM_JOB_NODELIST=a[0-299][0-299]: more than 65536 hosts");
    check_slurm("a,,b", NULL, "SLURM_JOB_NODELIST=a,,b: \"\" is not a valid host name");
    check_slurm(
        "a,-oProxyCommand=x", NULL,
        "SLURM_JOB_NODELIST=a,-oProxyCommand=x: \"-oProxyCommand=x\" is not a valid host name");
    check_slurm("a;b", NULL, "SLURM_JOB_NODELIST=a;b: \"a;b\" is not a valid host name");
    check_slurm("a\nb", NULL, "SLURM_JOB_NODELIST=a\nb: \"a\nb\" is not a valid host name");
    for (const char *const *p = (const char *const[]){"0", "2(x", "2(x0)", "2(x3", "1,", "x",
                                                      "1000001", "2(y3)", NULL};
         *p; p++) {
        char want[128];

        snprintf(want, sizeof(want), "SLURM_TASKS_PER_NODE=%s: wants counts such as 2(x3),1", *p);
        check_slurm("n[0-1]", *p, want);
    }
    check_slurm("n[0-1]", "2",
                "SLURM_TASKS_PER_NODE=2: it is for 1 nodes, SLURM_JOB_NODELIST "
                "names 2");
    setenv("SLURM_STEP_ID", "0", 1); /* in a step of one node, the allocation is larger */
    check_found("n0 n1");
    setenv("SLURM_STEP_NUM_TASKS", "4", 1); /* one task of several */
    check_found("nothing");
    setenv("SLURM_STEP_NUM_TASKS", "1", 1);
    check_found("n0 n1");
}

static char path[64];

/* Writes a file for the variable. */
static void put_file(const char *variable, const char *text, size_t n)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    forget();
    setenv(variable, path, 1);
}

/* want: the hosts, or, if it begins with a comma or a colon, the error's text behind the file's
 * name. */
static void check_file(const char *variable, const char *text, const char *want)
{
    char all[512];

    put_file(variable, text, strlen(text));
    if (want[0] == ',' || want[0] == ':')
        snprintf(all, sizeof(all), "%s=%s%s", variable, path, want);
    else
        snprintf(all, sizeof(all), "%s", want);
    check_found(all);
}

static void check_unreadable(int err)
{
    char want[256];

    snprintf(want, sizeof(want), "PBS_NODEFILE=%s: cannot read this file: %s", path, strerror(err));
    check_found(want);
}

static void test_files(void **state)
{
    char line[1200];

    check_file("PBS_NODEFILE", "a\na\nb\na\n", "a:3 b:1");
    check_file("PBS_NODEFILE", "a.x.org\r\n\n  b  \n", "a.x.org:1 b:1");
    check_file("LSB_DJOB_HOSTFILE", "a\nb", "a:1 b:1");
    check_file("PE_HOSTFILE", "a 2 all.q@a UNDEFINED\nb 1 all.q@b 0:1\n", "a:2 b:1");
    check_file("PBS_NODEFILE", "", ": it names no host");
    check_file("PBS_NODEFILE", "a\n-x\n", ", line 2: \"-x\" is not a valid host name");
    check_file("PBS_NODEFILE", "a\n\nb c\n", ", line 3: more than one word");
    check_file("PBS_NODEFILE", "a;reboot\n", ", line 1: \"a;reboot\" is not a valid host name");
    check_file("PE_HOSTFILE", "a 2\nb\n", ", line 2: \"b\" has no number of slots");
    check_file("PE_HOSTFILE", "a 0 q\n", ", line 1: \"a\" has no number of slots");
    check_file("PE_HOSTFILE", "a 2x q\n", ", line 1: \"a\" has no number of slots");
    check_file("PE_HOSTFILE", "a 1000000\na 1\n",
               ", line 2: host a is named more than once, and has more than 1000000 slots");
    memset(line, 'a', sizeof(line));
    line[sizeof(line) - 1] = '\0';
    check_file("PBS_NODEFILE", line, ", line 1: it is longer than 1022 bytes");
    line[256] = '\0';
    put_file("PBS_NODEFILE", line, strlen(line));
    free(found());
    unlink(path);
    check_unreadable(ENOENT);
    assert_int_equal(mkfifo(path, 0600), 0); /* open() would wait for a writer */
    check_unreadable(EINVAL);
    unlink(path);
}

static void test_pairs(void **state)
{
    forget();
    setenv("LSB_MCPU_HOSTS", "a 2 b 4 a 1", 1);
    check_found("a:3 b:4");
    setenv("LSB_MCPU_HOSTS", "a 2 b", 1);
    check_found("LSB_MCPU_HOSTS=a 2 b: \"b\" has no number of slots");
    setenv("LSB_MCPU_HOSTS", "a 2 b x", 1);
    check_found("LSB_MCPU_HOSTS=a 2 b x: \"b\" has no number of slots");
    setenv("LSB_MCPU_HOSTS", "-a 2", 1);
    check_found("LSB_MCPU_HOSTS=-a 2: \"-a\" is not a valid host name");
    setenv("LSB_MCPU_HOSTS", "   ", 1);
    check_found("LSB_MCPU_HOSTS=   : it names no host");
}

/* The maximal number of hosts, and one more; each on a line of its own, and found by name. */
static void test_many(void **state)
{
    char *text = NULL, *why;
    size_t n = 0;
    struct allocation a;
    FILE *f = open_memstream(&text, &n);

    for (int round = 0; round < 2; round++)
        for (unsigned i = 0; i < MAX_HOSTS; i++)
            fprintf(f, "node%u\n", i);
    fflush(f);
    put_file("PBS_NODEFILE", text, n);
    assert_null(allocation_find(&a));
    assert_int_equal(a.n_hosts, MAX_HOSTS);
    assert_int_equal(a.slots[0], 2);
    assert_int_equal(a.slots[MAX_HOSTS - 1], 2);
    allocation_free(&a);
    fprintf(f, "one-more\n");
    fclose(f);
    put_file("PBS_NODEFILE", text, n);
    why = allocation_find(&a);
    assert_non_null(strstr(why, "line 131073: more than 65536 hosts"));
    free(why);
    free(text);
    unlink(path);
}

/* ---- random ---- */

static uint32_t seed = 1;

static uint32_t any(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

/* A text with some bytes replaced, removed or doubled; the new bytes are syntax. */
static void spoil(char *text, size_t room)
{
    static const char bytes[] = "[]-,()x0129 \n\r\t;%'\"\\a.\x80\x01";

    for (uint32_t n = 1 + any(4); n > 0; n--) {
        const size_t len = strlen(text), at = len ? any((uint32_t)len) : 0;

        switch (any(3)) {
        case 0: text[at] = bytes[any(sizeof(bytes))]; break; /* the last one is an end */
        case 1: memmove(text + at, text + at + (len > 0), len - at); break;
        default:
            if (2 * len < room) {
                memmove(text + at + len / 2, text + at, len - at + 1);
                break;
            }
        }
    }
}

static void test_random(void **state)
{
    static const char *const lists[] = {"n[0-2,7],m07,r[1-2]n[008-010]x", "2(x3),1", "a 2 b 4 c 1",
                                        "a\na\nb\n", "a 2 q x\nb 1 q y\n"};
    static const char *const names[] = {"SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE",
                                        "LSB_MCPU_HOSTS", "PBS_NODEFILE", "PE_HOSTFILE"};
    unsigned taken = 0, refused = 0;
    char text[512];

    for (unsigned i = 0; i < 5000; i++) {
        const uint32_t kind = any(5);
        char *got;

        snprintf(text, sizeof(text), "%s", lists[kind]);
        spoil(text, sizeof(text));
        forget();
        if (kind >= 3) {
            put_file(names[kind], text, strlen(text));
        } else {
            setenv("SLURM_JOB_NODELIST", kind == 2 ? "" : "n[0-3]", 1);
            setenv(names[kind], text, 1);
        }
        got = found();
        if (strchr(got, '=')) {
            refused++;
            assert_memory_equal(got, names[kind], strlen(names[kind]));
        } else {
            taken++;
        }
        free(got);
    }
    assert_true(taken > 250 && refused > 250);
    for (unsigned i = 0; i < 5000; i++) {
        snprintf(text, sizeof(text), "a 'b c' \"d \\\" e\" %%h f\\ g '%%c' %%%% %%c");
        spoil(text, sizeof(text));
        free(words_of(text, "/p"));
    }
    unlink(path);
}

static void test_own_names(void **state)
{
    char name[300], other[400];

    assert_int_equal(gethostname(name, sizeof(name)), 0);
    assert_true(host_is_own("localhost"));
    assert_true(host_is_own("LocalHost"));
    assert_true(host_is_own(name));
    snprintf(other, sizeof(other), "x%s", name);
    assert_false(host_is_own(other));
    name[strcspn(name, ".")] = '\0';
    assert_true(host_is_own(name));
    assert_false(host_is_own(""));
    assert_false(host_is_own("127.0.0.1")); /* an address is no name: it may be another's port */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),    cmocka_unit_test(test_slurm),
        cmocka_unit_test(test_files),    cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_many),     cmocka_unit_test(test_random),
        cmocka_unit_test(test_own_names)};
    char dir[] = "/tmp/reach-XXXXXX";
    int failed;

    if (!mkdtemp(dir))
        return 1;
    snprintf(path, sizeof(path), "%s/file", dir);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    rmdir(dir);
    return failed;
}
