/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The PMI-1 interface that libpmi.so.0 of this folder implements, for programs to compile against.
 * The names, values and signatures are PMI's own (those of Slurm's slurm/pmi.h): a program built
 * with either header runs with either library.
 */
#ifndef PMI_H
#define PMI_H

#ifdef __cplusplus
extern "C" {
#endif

#define PMI_SUCCESS                0
#define PMI_FAIL                   -1
#define PMI_ERR_INIT               1
#define PMI_ERR_NOMEM              2
#define PMI_ERR_INVALID_ARG        3
#define PMI_ERR_INVALID_KEY        4
#define PMI_ERR_INVALID_KEY_LENGTH 5
#define PMI_ERR_INVALID_VAL        6
#define PMI_ERR_INVALID_VAL_LENGTH 7
#define PMI_ERR_INVALID_LENGTH     8
#define PMI_ERR_INVALID_NUM_ARGS   9
#define PMI_ERR_INVALID_ARGS       10
#define PMI_ERR_INVALID_NUM_PARSED 11
#define PMI_ERR_INVALID_KEYVALP    12
#define PMI_ERR_INVALID_SIZE       13
#define PMI_ERR_INVALID_KVS        14
#define PMI_ERR_OTHER              15 /* an extension: this server cannot do that */

typedef int PMI_BOOL;
#define PMI_TRUE  1
#define PMI_FALSE 0

typedef struct PMI_keyval_t {
    char *key;
    char *val;
} PMI_keyval_t;

int PMI_Init(int *spawned);
int PMI_Initialized(PMI_BOOL *initialized);
int PMI_Finalize(void);
int PMI_Get_size(int *size);
int PMI_Get_rank(int *rank);
int PMI_Get_universe_size(int *size);
int PMI_Get_appnum(int *appnum);
int PMI_Publish_name(const char service_name[], const char port[]);
int PMI_Unpublish_name(const char service_name[]);
int PMI_Lookup_name(const char service_name[], char port[]);
int PMI_Get_id(char id_str[], int length);
int PMI_Get_kvs_domain_id(char id_str[], int length);
int PMI_Get_id_length_max(int *length);
int PMI_Barrier(void);
int PMI_Get_clique_size(int *size);
int PMI_Get_clique_ranks(int ranks[], int length);
int PMI_Abort(int exit_code, const char error_msg[]);
int PMI_KVS_Get_my_name(char kvsname[], int length);
int PMI_KVS_Get_name_length_max(int *length);
int PMI_KVS_Get_key_length_max(int *length);
int PMI_KVS_Get_value_length_max(int *length);
int PMI_KVS_Create(char kvsname[], int length);
int PMI_KVS_Destroy(const char kvsname[]);
int PMI_KVS_Put(const char kvsname[], const char key[], const char value[]);
int PMI_KVS_Commit(const char kvsname[]);
int PMI_KVS_Get(const char kvsname[], const char key[], char value[], int length);
int PMI_KVS_Iter_first(const char kvsname[], char key[], int key_len, char val[], int val_len);
int PMI_KVS_Iter_next(const char kvsname[], char key[], int key_len, char val[], int val_len);
int PMI_Spawn_multiple(int count, const char *cmds[], const char **argvs[], const int maxprocs[],
                       const int info_keyval_sizesp[], const PMI_keyval_t *info_keyval_vectors[],
                       int preput_keyval_size, const PMI_keyval_t preput_keyval_vector[],
                       int errors[]);
int PMI_Parse_option(int num_args, char *args[], int *num_parsed, PMI_keyval_t **keyvalp,
                     int *size);
int PMI_Args_to_keyval(int *argcp, char *((*argvp)[]), PMI_keyval_t **keyvalp, int *size);
int PMI_Free_keyvals(PMI_keyval_t keyvalp[], int size);
int PMI_Get_options(char *str, int *length);

/*
 * Extensions: pmi2.h describes them under the same names. kvsname must be this job's own.
 * PMI_KVS_Get_wait() returns PMI_ERR_OTHER if the server cannot wait, and PMI_FAIL if the key will
 * not come; source is the rank that puts it, or -1. PMI_Ring() takes 1 to PMI_RING_MAX printable
 * bytes without blanks, `;` and `\`.
 */
#define PMI_HINT_NONE   0
#define PMI_HINT_SPARSE 1
#define PMI_HINT_DENSE  2
#define PMI_RING_MAX    440
int PMI_KVS_Put_hinted(const char kvsname[], const char key[], const char value[], int hint);
int PMI_KVS_Get_wait(const char kvsname[], int source, const char key[], char value[], int length);
int PMI_Ring(const char value[], int *rank, int *ranks, char left[], char right[], int maxvalue);

/*
 * Extensions: a non-blocking barrier. pmi2.h describes the semantics, at
 * PMI2_KVS_Ifence(), PMI2_KVS_Wait() and PMI2_KVS_Test(). The first two have MVAPICH2's names;
 * PMI_Test() and PMI_KVS_Put_refused() are ours.
 */
#define PMI_MAX_OUTSTANDING 16
int PMI_Ibarrier(void);
int PMI_Wait(void);
int PMI_Test(int *done);
int PMI_KVS_Put_refused(char key[], int keylen, int *error);

/* An extension: number of this process's Gets answered from shared memory, and by the server. */
int PMI_SHMEM_Counts(unsigned long *n_read, unsigned long *n_asked);

#ifdef __cplusplus
}
#endif
#endif /* PMI_H */
