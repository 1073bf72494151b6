/* SPDX-License-Identifier: BSD-3-Clause */
/* Which file a program's name means. */
#ifndef PMIRUN_PROGRAM_H
#define PMIRUN_PROGRAM_H

struct app;

#define NO_WDIR (-1)
/* Sets app->path. 0, NO_WDIR (its working directory does not exist), or an errno: ENOENT, EACCES,
 * ... */
int program_resolve(struct app *app);
/* As program_resolve(). 0, or a STATUS_* and *why, a sentence to be freed. */
int program_find(struct app *app, char **why);
/* The arguments that run it as a script without a #! line: sh, the script, its own arguments; an
 * array to be freed. NULL: it is no text. */
char **program_shell_argv(const struct app *app);

#endif
