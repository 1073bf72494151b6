/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plugin of qemu-user (API version 1, qemu 4.2 and later): counts the instructions that a program
 * executes, and prints their number at its end. Debian 12 has no header of that API in a package.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

struct qemu_plugin_tb;
struct qemu_plugin_insn;
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id,
                                           void (*cb)(uint64_t id, struct qemu_plugin_tb *tb));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t at);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, int op, void *ptr,
                                                uint64_t n);
void qemu_plugin_register_atexit_cb(uint64_t id, void (*cb)(uint64_t id, void *ctx), void *ctx);

EXPORT extern int qemu_plugin_version;
EXPORT int qemu_plugin_version = 1;
EXPORT int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv);

static uint64_t n_executed;

static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++)
        qemu_plugin_register_vcpu_insn_exec_inline(qemu_plugin_tb_get_insn(tb, i), 0 /* add */,
                                                   &n_executed, 1);
}

static void ended(uint64_t id, void *ctx)
{
    (void)id, (void)ctx;
    fprintf(stderr, "executed %" PRIu64 "\n", n_executed);
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
    (void)info, (void)argc, (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
