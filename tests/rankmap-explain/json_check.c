/* SPDX-License-Identifier: BSD-3-Clause */
/* json_check: is stdin one JSON text by RFC 8259? Status 0, or 1 with the offset of the error.
 * ASCII and UTF-8 pass unchanged. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static char text[1 << 20];
static size_t len, at;

static int value(int depth);

static void blanks(void)
{
    while (at < len && strchr(" \t\r\n", text[at]) && text[at])
        at++;
}

static int is(char c)
{
    if (at == len || text[at] != c)
        return 0;
    at++;
    return 1;
}

static int string(void)
{
    if (!is('"'))
        return 0;
    while (at < len && text[at] != '"') {
        if ((unsigned char)text[at] < 0x20)
            return 0;
        if (text[at++] != '\\')
            continue;
        if (at == len || !strchr("\"\\/bfnrtu", text[at]) || !text[at])
            return 0;
        if (text[at++] == 'u')
            for (int i = 0; i < 4; i++)
                if (!isxdigit((unsigned char)text[at++]))
                    return 0;
    }
    return is('"');
}

static int digits(void)
{
    size_t begin = at;

    while (at < len && isdigit((unsigned char)text[at]))
        at++;
    return at > begin;
}

static int number(void)
{
    is('-');
    if (!is('0') && !digits())
        return 0;
    if (is('.') && !digits())
        return 0;
    if (is('e') || is('E')) {
        if (!is('-'))
            is('+');
        return digits();
    }
    return 1;
}

static int word(const char *w)
{
    if (len - at < strlen(w) || memcmp(text + at, w, strlen(w)) != 0)
        return 0;
    at += strlen(w);
    return 1;
}

static int list(char end, int depth)
{
    at++;
    blanks();
    if (is(end))
        return 1;
    do {
        blanks();
        if (end == '}') {
            if (!string())
                return 0;
            blanks();
            if (!is(':'))
                return 0;
        }
        if (!value(depth + 1))
            return 0;
        blanks();
    } while (is(','));
    return is(end);
}

static int value(int depth)
{
    blanks();
    if (at == len || depth > 100)
        return 0;
    switch (text[at]) {
    case '{': return list('}', depth);
    case '[': return list(']', depth);
    case '"': return string();
    case 't': return word("true");
    case 'f': return word("false");
    case 'n': return word("null");
    default: return number();
    }
}

int main(void)
{
    int right;

    len = fread(text, 1, sizeof(text) - 1, stdin);
    right = value(0);
    blanks();
    if (right && at == len)
        return 0;
    fprintf(stderr, "json_check: no JSON from byte %zu: %.40s\n", at, text + at);
    return 1;
}
