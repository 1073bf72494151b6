/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file mapping.h
 * @brief PMI_process_mapping: which node each rank runs on, as a short string.
 *
 *     mapping = "(vector," item *( "," item ) ")"
 *     item    = block / "[" block *( "," block ) "]x" number
 *     block   = "(" first-node "," n-nodes "," ppn ")" / node
 *
 *  - A block `(f,n,p)` places p ranks on each of the nodes f, f+1, … f+n-1, in rank order.
 *  - A bare number k means (k,1,1). `[…]xN` repeats its blocks N times.
 *  - Readers repeat the list from its first block until every rank has its node.
 *
 * Two grammars are in use. The classic one has triples only. MPICH 4.1 added bare numbers and
 * repetition; MPICH 4.0 crashes with a double free when it reads them. You choose which grammar the
 * encoder writes; the parser reads both. The parser accepts spaces. The encoder writes none.
 *
 *     pmiwire_mapping_parse(text, NULL, 0, &n_blocks, NULL);           // PMIWIRE_ENOBUF: counts
 *     pmiwire_mapping_parse(text, blocks, n_blocks, &n_blocks, &err);
 *     pmiwire_mapping_expand(blocks, n_blocks, n_ranks, node_of);      // node of each rank
 *     n = pmiwire_mapping_encode(node_of, n_ranks, PMIWIRE_MAPPING_CLASSIC,
 *                                PMIWIRE_MAPPING_MPICH40_BYTES, out, sizeof out);
 *
 * @source Flux RFC 13, MPICH pull request 6213, and measurement.
 */
#ifndef PMIWIRE_MAPPING_H
#define PMIWIRE_MAPPING_H

#include <sys/types.h>

#include <pmiwire/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Ranks and nodes are below this. */
#define PMIWIRE_MAPPING_MAX 0x7fffffffu

/** Longest mapping that MPICH 4.0 accepts, bytes, if the server advertises Hydra's limits: 256 for
 * kvsname_max, 64 for keylen_max, 1024 for vallen_max. */
#define PMIWIRE_MAPPING_MPICH40_BYTES 538u

/** Triples `(f,n,p)` only: every peer reads them. */
#define PMIWIRE_MAPPING_CLASSIC 0u
/** Also bare numbers and `[…]xN`: MPICH 4.1 and later only. */
#define PMIWIRE_MAPPING_EXTENDED 1u

/** A block: ppn ranks on each of n_nodes nodes from first_node on. */
struct pmiwire_mapping_block {
    uint32_t first_node;
    uint32_t n_nodes;
    uint32_t ppn;
    uint32_t group_len; /**< in the first block of a `[…]xN`: its number of blocks; else 0 */
    uint32_t group_rep; /**< in the first block of a `[…]xN`: N; else 0 */
};

/**
 * @brief Parse a mapping, either grammar.
 *
 * @param text        the attribute's value
 * @param blocks      filled in, in order; untouched on failure; may be NULL when cap is 0
 * @param cap         entries of blocks
 * @param n_blocks    set to the number of blocks in the mapping, also if cap is too small
 * @param err         may be NULL. With PMIWIRE_EMAPPING and PMIWIRE_EMAPSIZE, err->offset says
 *                    where the wrong token, block or item begins, in bytes from text.ptr
 * @return 0; PMIWIRE_EMAPPING (a syntax error); PMIWIRE_EMAPSIZE (a number is above
 *         PMIWIRE_MAPPING_MAX, a node is not below PMIWIRE_MAPPING_MAX, or the list covers more
 *         than PMIWIRE_MAPPING_MAX ranks); PMIWIRE_ENOBUF (cap is below n_blocks); -EINVAL (a NULL
 *         that is not allowed)
 *
 * A zero for n-nodes, ppn or N is a syntax error: such a list might place no rank.
 *
 * MT-Safe. Allocates nothing. Cost: two passes over the text, one to check and one to store.
 */
PMIWIRE_API int pmiwire_mapping_parse(struct pmiwire_str text, struct pmiwire_mapping_block *blocks,
                                      uint32_t cap, uint32_t *n_blocks, struct pmiwire_error *err);

/**
 * @brief Expand blocks into an array.
 * @param blocks,n_blocks  from pmiwire_mapping_parse()
 * @param n_ranks          size of the job
 * @param node_of          array of n_ranks: node of each rank, in rank order
 * @return 0, or -EINVAL (no blocks, or blocks that pmiwire_mapping_parse() cannot have made);
 *         node_of is untouched then
 *
 * MT-Safe. Allocates nothing.
 */
PMIWIRE_API int pmiwire_mapping_expand(const struct pmiwire_mapping_block *blocks,
                                       uint32_t n_blocks, uint32_t n_ranks, uint32_t *node_of);

/**
 * @brief Write the mapping of a job.
 *
 * The call shortens the text:
 *
 *  - It merges equal runs of ranks on consecutive nodes into one triple.
 *  - If the list repeats itself, as in cyclic placements, the call writes only the part that
 *    repeats. Readers repeat this part.
 *  - In the extended grammar it writes bare numbers, and `[…]xN` of up to 16 blocks, if that is
 *    shorter.
 *
 * Readers stop when every rank has its node. So the mapping of a job on one node is
 * `(vector,(f,1,1))` for any number of ranks, as Hydra 4.0 writes it. For the same reason, the last
 * block may cover more ranks than are left.
 *
 * @param node_of  array of n_ranks: node of each rank, in rank order, each below
 *                 PMIWIRE_MAPPING_MAX
 * @param n_ranks  1 to PMIWIRE_MAPPING_MAX
 * @param grammar  PMIWIRE_MAPPING_CLASSIC or PMIWIRE_MAPPING_EXTENDED
 * @param max_len  longest text that the reader accepts, bytes without NUL; for MPICH 4.0:
 *                 PMIWIRE_MAPPING_MPICH40_BYTES
 * @param out      the text and a NUL; untouched on failure
 * @param cap      bytes of out
 * @return length of the text without NUL; PMIWIRE_EMAPSIZE (it is longer than max_len);
 *         PMIWIRE_ENOBUF; -EINVAL; -ENOMEM
 *
 * After PMIWIRE_EMAPSIZE publish no mapping: every reader then compares host names instead. Do not
 * publish an empty mapping either: it crashes MPICH 4.0.
 *
 * MT-Safe. Allocates 12 bytes for each rank with calloc(), and frees them. Cost: O(n_ranks) for the
 * classic grammar, a small multiple of that for the extended one.
 */
PMIWIRE_API ssize_t pmiwire_mapping_encode(const uint32_t *node_of, uint32_t n_ranks,
                                           uint32_t grammar, size_t max_len, char *out, size_t cap);

#ifdef __cplusplus
}
#endif
#endif /* PMIWIRE_MAPPING_H */
