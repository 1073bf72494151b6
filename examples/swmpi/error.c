/* SPDX-License-Identifier: BSD-3-Clause */
/* Translates libstorwin's errors to MPI's: classes, messages, error handlers, and SWMPI_DEBUG's
 * output. */
#include "swmpi.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    int storwin, mpi;
} classes[] = {
    {STORWIN_EVALUE, MPI_ERR_INFO_VALUE},
    {STORWIN_EMISSING, MPI_ERR_INFO_NOKEY},
    {STORWIN_ECONFLICT, MPI_ERR_INFO_VALUE},
    {STORWIN_ESYNTAX, MPI_ERR_INFO_VALUE},
    {STORWIN_ESHORT, MPI_ERR_NO_SPACE},
    {STORWIN_ETYPE, MPI_ERR_BAD_FILE},
    {STORWIN_EOWNER, MPI_ERR_ACCESS},
    {STORWIN_EPAGER, MPI_ERR_UNSUPPORTED_OPERATION},
    {STORWIN_EBUSY, MPI_ERR_FILE_IN_USE},
    {STORWIN_ERANGE, MPI_ERR_ARG},
    {STORWIN_EDAMAGED, MPI_ERR_IO},
    {STORWIN_ERACE, MPI_ERR_RMA_SYNC},
    {-ENOSPC, MPI_ERR_NO_SPACE},
    {-EFBIG, MPI_ERR_NO_SPACE},
    {-EDQUOT, MPI_ERR_QUOTA},
    {-ENOMEM, MPI_ERR_NO_MEM},
    {-ENOENT, MPI_ERR_NO_SUCH_FILE},
    {-ENOTDIR, MPI_ERR_NO_SUCH_FILE},
    {-EACCES, MPI_ERR_ACCESS},
    {-EPERM, MPI_ERR_ACCESS},
    {-EROFS, MPI_ERR_READ_ONLY},
    {-EISDIR, MPI_ERR_BAD_FILE},
    {-ELOOP, MPI_ERR_BAD_FILE},
    {-ENAMETOOLONG, MPI_ERR_BAD_FILE},
    {-EIO, MPI_ERR_IO},
    {-EEXIST, MPI_ERR_FILE_EXISTS},
    {-EBUSY, MPI_ERR_FILE_IN_USE},
    {-EINVAL, MPI_ERR_ARG},
};

int swmpi_class(int storwin_code)
{
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
        if (classes[i].storwin == storwin_code)
            return classes[i].mpi;
    return MPI_ERR_OTHER;
}

void swmpi_say(struct swmpi_error *e, int code, const char *format, ...)
{
    va_list args;

    e->code = code;
    va_start(args, format);
    vsnprintf(e->text, sizeof(e->text), format, args);
    va_end(args);
}

void swmpi_say_storwin(struct swmpi_error *e, const char *what, int code,
                       const struct storwin_error *cause)
{
    if (cause->hint[0])
        swmpi_say(e, swmpi_class(code), "%s: %s: %s", what, cause->hint, cause->text);
    else
        swmpi_say(e, swmpi_class(code), "%s: %s", what, cause->text);
}

static int debug_level(void)
{
    const char *text = getenv("SWMPI_DEBUG");

    return text ? atoi(text) : 0;
}

static void say_line(const char *text)
{
    int rank = -1, running = 0, over = 0;

    PMPI_Initialized(&running);
    PMPI_Finalized(&over);
    if (running && !over)
        PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fprintf(stderr, "swmpi[%d]: %s\n", rank, text);
}

void swmpi_trace(int level, const char *format, ...)
{
    char text[STORWIN_MAX_PATH + 256];
    va_list args;

    if (debug_level() < level)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    say_line(text);
}

/* The code to raise. Where MPI keeps text that a user adds, each of the first messages has its own
 * code, so that MPI_Error_string() gives the cause. MPICH 4.0 loses that text: there the code
 * is the class. */
static int code_for(const struct swmpi_error *e)
{
#ifdef OPEN_MPI
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct swmpi_error known[32];
    static int codes[32], n_known;
    char text[MPI_MAX_ERROR_STRING];
    int code = e->code, i;

    pthread_mutex_lock(&lock);
    for (i = 0; i < n_known; i++)
        if (known[i].code == e->code && strcmp(known[i].text, e->text) == 0)
            code = codes[i];
    if (code == e->code && n_known < 32 &&
        PMPI_Add_error_code(e->code, &codes[n_known]) == MPI_SUCCESS) {
        snprintf(text, sizeof(text), "%.*s", (int)sizeof(text) - 1, e->text);
        PMPI_Add_error_string(codes[n_known], text);
        known[n_known] = *e;
        code = codes[n_known++];
    }
    pthread_mutex_unlock(&lock);
    return code;
#else
    return e->code;
#endif
}

/* Prints the error for SWMPI_DEBUG, and when the handler ends the job: MPI names only the class. */
static void print_error(const char *function, const struct swmpi_error *e, MPI_Errhandler handler)
{
    char text[sizeof(e->text) + 64];

    if (debug_level() < 1 && handler != MPI_ERRORS_ARE_FATAL)
        return;
    snprintf(text, sizeof(text), "%s: %s", function, e->text);
    say_line(text);
}

static void release_handler(MPI_Errhandler *handler)
{
    if (*handler != MPI_ERRORS_ARE_FATAL && *handler != MPI_ERRORS_RETURN)
        PMPI_Errhandler_free(handler);
}

int swmpi_raise_comm(MPI_Comm comm, const char *function, const struct swmpi_error *e)
{
    MPI_Errhandler handler = MPI_ERRORS_RETURN;
    int code = code_for(e);

    if (PMPI_Comm_get_errhandler(comm, &handler) == MPI_SUCCESS) {
        print_error(function, e, handler);
        release_handler(&handler);
    }
    PMPI_Comm_call_errhandler(comm, code);
    return code;
}

int swmpi_raise_win(MPI_Win win, const char *function, const struct swmpi_error *e)
{
    MPI_Errhandler handler = MPI_ERRORS_RETURN;
    int code = code_for(e);

    if (PMPI_Win_get_errhandler(win, &handler) == MPI_SUCCESS) {
        print_error(function, e, handler);
        release_handler(&handler);
    }
    PMPI_Win_call_errhandler(win, code);
    return code;
}
