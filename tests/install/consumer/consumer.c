/* SPDX-License-Identifier: BSD-3-Clause */
/* A user of one library, compiled as C11 and, under the name consumer.cc, as C++17: see
 * tests/install/common.sh. */
#include CONSUMER_HEADER

#include <stdio.h>
#include <string.h>

int main(void)
{
    const char *text = CONSUMER_STRERROR(0);

    if (!text || strcmp(CONSUMER_VERSION, CONSUMER_EXPECT) != 0) {
        fprintf(stderr, "the header is %s, the package %s\n", CONSUMER_VERSION, CONSUMER_EXPECT);
        return 1;
    }
    printf("%s\n", text);
    return 0;
}
