/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PMI-2's interface as libpmi2.so.0 has it: the functions of Slurm's library of that name, with its
 * binary interface, and extensions. Programs built with Slurm's <slurm/pmi2.h> only need this
 * library in the loader's path. This header is for programs without Slurm's, and for the
 * extensions.
 *
 * All functions return PMI2_SUCCESS or PMI2_ERR_*. Calls from several threads are served one at a
 * time.
 */
#ifndef FENCEPOST_PMI2_H
#define FENCEPOST_PMI2_H

#ifdef __cplusplus
extern "C" {
#endif

#define PMI2_MAX_KEYLEN 64 /* longest key, bytes without NUL */
/* longest value, bytes without NUL; also the stride of gathered values */
#define PMI2_MAX_VALLEN    1024
#define PMI2_MAX_ATTRVALUE 1024
#define PMI2_ID_NULL       (-1)

#define PMI2_SUCCESS                0
#define PMI2_FAIL                   (-1)
#define PMI2_ERR_INIT               1
#define PMI2_ERR_NOMEM              2
#define PMI2_ERR_INVALID_ARG        3
#define PMI2_ERR_INVALID_KEY        4
#define PMI2_ERR_INVALID_KEY_LENGTH 5
#define PMI2_ERR_INVALID_VAL        6
#define PMI2_ERR_INVALID_VAL_LENGTH 7
#define PMI2_ERR_INVALID_LENGTH     8
#define PMI2_ERR_INVALID_NUM_ARGS   9
#define PMI2_ERR_INVALID_ARGS       10
#define PMI2_ERR_INVALID_NUM_PARSED 11
#define PMI2_ERR_INVALID_KEYVALP    12
#define PMI2_ERR_INVALID_SIZE       13
#define PMI2_ERR_OTHER              14

typedef struct PMI2_Connect_comm {
    int (*read)(void *buf, int maxlen, void *ctx);
    int (*write)(const void *buf, int len, void *ctx);
    void *ctx;
    int isMaster;
} PMI2_Connect_comm_t;

typedef struct MPID_Info {
    int handle;
    int pobj_mutex;
    int ref_count;
    struct MPID_Info *next;
    char *key;
    char *value;
} MPID_Info;

int PMI2_Init(int *spawned, int *size, int *rank, int *appnum);
int PMI2_Finalize(void);
int PMI2_Initialized(void);
/* Ends the job; does not return. Also while another call waits, from another thread or a signal
 * handler; then exit handlers do not run. */
int PMI2_Abort(int flag, const char msg[]);

/* info_keyval_vectors[i] is an array of info_keyval_sizes[i] structs, as Slurm reads it;
 * preput_keyval_vector is one of pointers. PMI2_ERR_INVALID_LENGTH: the processes run, and jobId is
 * too short for their job's id. */
int PMI2_Job_Spawn(int count, const char *cmds[], int argcs[], const char **argvs[],
                   const int maxprocs[], const int info_keyval_sizes[],
                   const struct MPID_Info *info_keyval_vectors[], int preput_keyval_size,
                   const struct MPID_Info *preput_keyval_vector[], char jobId[], int jobIdSize,
                   int errors[]);
int PMI2_Job_GetId(char jobid[], int jobid_size);
int PMI2_Job_GetRank(int *rank);
/* The size of the job, as Slurm's. */
int PMI2_Info_GetSize(int *size);
int PMI2_Job_Connect(const char jobid[], PMI2_Connect_comm_t *conn);
int PMI2_Job_Disconnect(const char jobid[]);

int PMI2_KVS_Put(const char key[], const char value[]);
int PMI2_KVS_Fence(void);
/* A value longer than maxvalue - 1 is truncated, and *vallen is its negative length. */
int PMI2_KVS_Get(const char *jobid, int src_pmi_id, const char key[], char value[], int maxvalue,
                 int *vallen);

/* Attributes: where `found` is NULL, one that there is not is PMI2_ERR_INVALID_KEY. */
int PMI2_Info_GetNodeAttr(const char name[], char value[], int valuelen, int *found, int waitfor);
int PMI2_Info_GetNodeAttrIntArray(const char name[], int array[], int arraylen, int *outlen,
                                  int *found);
int PMI2_Info_PutNodeAttr(const char name[], const char value[]);
int PMI2_Info_GetJobAttr(const char name[], char value[], int valuelen, int *found);
int PMI2_Info_GetJobAttrIntArray(const char name[], int array[], int arraylen, int *outlen,
                                 int *found);

int PMI2_Nameserv_publish(const char service_name[], const struct MPID_Info *info_ptr,
                          const char port[]);
int PMI2_Nameserv_lookup(const char service_name[], const struct MPID_Info *info_ptr, char port[],
                         int portLen);
int PMI2_Nameserv_unpublish(const char service_name[], const struct MPID_Info *info_ptr);

/*
 * A ring of all processes, under Slurm's name and its papers' name, with Slurm's arguments. Each
 * process gives a string of 1 to PMI2_MAX_VALLEN - 1 bytes, and gets its neighbours' strings in
 * left and right of maxvalue bytes, NUL included (PMI2_ERR_INVALID_VAL_LENGTH: too short). *rank of
 * *ranks is the place in the ring, which may differ from the rank in the job. Source: "PMI
 * Extensions for Scalable MPI Startup", section 4.1, where size comes before rank and there is no
 * maxvalue. With a server that has no ring (mpiexec.hydra) the library uses a Put, a Fence and two
 * Gets instead, and the place is the rank.
 */
int PMIX_Ring(const char value[], int *rank, int *ranks, char left[], char right[], int maxvalue);
int PMI2_Ring(const char value[], int *rank, int *ranks, char left[], char right[], int maxvalue);
/* 1 if the server announced rings at init, else 0; the same for all processes of a job. Slurm's has
 * rings without announcing them. */
int PMIX_Ring_offered(void);

/* ---- extensions: non-blocking Fences and Allgathers, on any server ---- */

/*
 * A call with an I begins an operation and returns at once. A Wait completes the oldest operation
 * of its kind. A Test completes it too if it is over: then *done is 1 and the code is the
 * operation's; otherwise *done is 0. No operation can be completed twice; a Wait or a Test without
 * a pending one returns PMI2_FAIL. To the other ranks, a rank that has begun an operation has
 * entered it.
 *
 * At most PMI2_MAX_OUTSTANDING operations may be pending; one more returns PMI2_FAIL. The blocking
 * forms do not count, and may be called meanwhile. Every rank begins operations in the same order.
 *
 * While operations are pending:
 *   - A Put returns at once and belongs to the next Fence that is begun. If the server refuses it,
 *     that Fence fails with the reason, and PMI2_KVS_Put_refused() returns the key. A Put that the
 *     wire cannot carry is refused at once, unless many wait before it. Each Put takes its own
 *     length of memory until it has been sent.
 *   - A Get from shared memory is answered at once.
 *   - Any other request to the server waits for all pending operations.
 *
 * Progress: under pmirun, pending operations progress while the program computes. The library sends
 * up to 48 requests and 64 KiB ahead of the server's answers. Later calls send the rest, except
 * Gets from shared memory. Two operations are always sent later: an Allgather begun after another
 * one, if values come in shared memory; over PMI_PORT, everything begun after an Allgather. Other
 * servers may answer out of order (mpiexec.hydra) or lose requests (srun, PMI-1): they get one
 * request at a time.
 *
 * The Tests, PMI2_KVS_Put_refused() and PMI2_SHMEM_Iallgather_wait_stride() are ours alone; the
 * other names are those of "Non-blocking PMI Extensions for Fast MPI Startup" and of MVAPICH2.
 */
#define PMI2_MAX_OUTSTANDING 16

int PMI2_KVS_Ifence(void);
int PMI2_KVS_Wait(void);
int PMI2_KVS_Test(int *done);
int PMIX_KVS_Ifence(void); /* the same as PMI2_KVS_Ifence() */

/* The key of the Put that made the last completed Fence fail, into keylen bytes, and the reason,
 * PMI2_ERR_*. PMI2_FAIL: no Put did. */
int PMI2_KVS_Put_refused(char key[], int keylen, int *error);

/*
 * Each process gives a string of 1 to PMI2_MAX_VALLEN - 1 bytes; buffer has n_ranks *
 * PMI2_MAX_VALLEN bytes and receives rank r's string at r * PMI2_MAX_VALLEN. The buffer of
 * PMIX_Iallgather() belongs to the library until the operation is complete.
 */
int PMIX_Allgather(const char value[], void *buffer);
int PMIX_Iallgather(const char value[], void *buffer);
/* Completes the oldest of all Fences and Allgathers of PMIX_Iallgather(). */
int PMIX_Wait(void);
int PMIX_Test(int *done);
int PMI2_Iallgather(const char value[]);
int PMI2_Iallgather_wait(void *buffer);
int PMI2_Iallgather_test(void *buffer, int *done);

/* ---- extensions: pairs without a Fence, where the server offers it (pmirun) ---- */

/*
 * Put with a hint about the key's readers: SPARSE, few ranks; DENSE, most. Between nodes a Fence
 * does not carry SPARSE keys: PMI2_KVS_Get_wait() gets them, and PMI2_KVS_Get() does not find those
 * of other nodes. Under pmirun PMI2_KVS_Put() is DENSE. On one node, and if the server does not
 * know hints, this is PMI2_KVS_Put(), whatever the hint. A key that was once put as DENSE, or by
 * PMI2_KVS_Put(), remains so. PMI2_ERR_INVALID_ARG: no such hint.
 */
#define PMI2_HINT_NONE   0
#define PMI2_HINT_SPARSE 1
#define PMI2_HINT_DENSE  2
int PMI2_KVS_Put_hinted(const char key[], const char value[], int hint);

/*
 * Get a key of this job, and wait until it is put: no Fence is needed between the two. Put such
 * keys as SPARSE: any other key of another node comes with a Fence, which a waiting rank cannot
 * enter before it has given up. src_pmi_id is the rank that puts the key, for servers that keep
 * keys where they were put, or PMI2_ID_NULL. The value is as PMI2_KVS_Get()'s.
 *
 *     PMI2_ERR_INVALID_ARG   no such rank
 *     PMI2_ERR_OTHER         this server cannot wait (mpiexec.hydra, srun). The library does not
 *                            ask it, so every rank and every call gets this result, whether the key
 *                            exists or not. Continue with PMI2_KVS_Fence() and PMI2_KVS_Get().
 *     PMI2_FAIL              the key will not come: the rank src_pmi_id has finalized or ended
 *     (with PMI2_ID_NULL or one's own: every other rank has); or pmirun's --get-timeout has passed
 *     (default: 60 s), or a node or the server is lost
 *
 * Meanwhile other threads' calls wait for this one: do not wait for a key that another thread of
 * this process puts. After PMI2_KVS_Ifence() it waits for that Fence first.
 *
 * Source of both: the same paper, sections 4.2 and 4.3, which gives them no names.
 */
int PMI2_KVS_Get_wait(int src_pmi_id, const char key[], char value[], int maxvalue, int *vallen);

/* ---- extensions: where the server offers shared memory (pmirun without --no-shm), else
 * PMI2_ERR_OTHER ---- */

/*
 * The value itself: a string in the server's memory, the same for every process of the node. It
 * stays valid and unchanged until PMI2_Finalize(), even after a later Put of the key.
 * PMI2_ERR_OTHER: not in there; PMI2_KVS_Get() may still find it. PMI2_ERR_INVALID_VAL, also of
 * PMI2_KVS_Get(): the value contains a NUL, which a client of libpmiwire can put.
 */
int PMI2_SHMEM_KVS_Get(const char key[], const char **value, int *vallen);

/*
 * The same for n keys with overlapping memory accesses. values[i] is NULL if key i is not in there,
 * or its value is not a string; *found counts the others.
 */
int PMI2_SHMEM_KVS_Get_many(int n, const char *const keys[], const char *values[], int vallens[],
                            int *found);

/*
 * An Allgather whose values are read in place: the string of rank r begins at r * *stride. If the
 * server offers shared memory, the values are in there, the same for every process of the node;
 * otherwise they are in this process's memory. They stay valid until the next Allgather of any kind
 * is complete, or PMI2_Finalize(). PMI2_SHMEM_Iallgather_wait() has MVAPICH2's arguments, without
 * the stride. PMI2_SHMEM_Allgathered() returns the stride, and the values of the last completed
 * Allgather; those of PMIX_Allgather() too if they are in shared memory (else PMI2_ERR_OTHER).
 */
int PMI2_SHMEM_Iallgather(const char value[]);
int PMI2_SHMEM_Iallgather_wait(void **values);
int PMI2_SHMEM_Iallgather_wait_stride(void **values, int *stride);
int PMI2_SHMEM_Iallgather_test(void **values, int *stride, int *done);
int PMI2_SHMEM_Allgathered(const void **values, int *stride);

/* Number of this process's Gets answered from shared memory, and by the server. */
int PMI2_SHMEM_Counts(unsigned long *n_read, unsigned long *n_asked);

#ifdef __cplusplus
}
#endif
#endif
