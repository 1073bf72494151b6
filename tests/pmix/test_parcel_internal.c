/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages in pieces: order, back-pressure, several at the same time, malformed pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../examples/pmirun/local/util.h"
#include "../../examples/pmirun/pmix/parcel.h"

void *xrealloc(void *p, size_t bytes)
{
    void *grown = realloc(p, bytes);

    assert_non_null(grown);
    return grown;
}

/* Node 0 sends to nodes 1 and 2, whose links take `room` pieces before they are full. */
static struct parcels *out, *in;
static uint32_t room, n_pieces[3], n_messages[3];
static size_t last_len[3];
static uint64_t sum[3];
static bool dislikes;

static uint64_t sum_of(const unsigned char *p, size_t n)
{
    uint64_t s = n;

    for (size_t i = 0; i < n; i++)
        s = s * 1099511628211u + p[i];
    return s;
}

static bool on_piece(void *ctx, uint32_t node, const void *p, size_t n)
{
    n_pieces[node]++;
    assert_true(n <= 4 + PARCEL_PIECE_BYTES);
    assert_int_equal(parcels_input(in, node, p, n),
                     !dislikes); /* at the other end, as from there */
    return n_pieces[node] % room != 0;
}

static bool on_message(void *ctx, uint32_t from, const void *p, size_t n)
{
    n_messages[from]++;
    last_len[from] = n;
    sum[from] += n_messages[from] * sum_of(p, n);
    return !dislikes;
}

static const struct parcel_ops ops = {on_piece, on_message};

static void begin(uint32_t pieces)
{
    out = parcels_create(3, &ops, NULL);
    in = parcels_create(3, &ops, NULL);
    room = pieces;
    dislikes = false;
    memset(n_pieces, 0, sizeof(n_pieces));
    memset(n_messages, 0, sizeof(n_messages));
    memset(sum, 0, sizeof(sum));
}

static void end(void)
{
    parcels_destroy(out);
    parcels_destroy(in);
}

static char *text(size_t n, char with)
{
    char *p = malloc(n);

    assert_non_null(p);
    memset(p, with, n);
    p[n - 1] = '!';
    return p;
}

static void test_sizes(void **state)
{
    static const size_t sizes[] = {1,
                                   2,
                                   PARCEL_PIECE_BYTES - 1,
                                   PARCEL_PIECE_BYTES,
                                   PARCEL_PIECE_BYTES + 1,
                                   5 * PARCEL_PIECE_BYTES + 77};
    const uint32_t both[] = {1, 2};
    uint64_t want = 0;

    for (uint32_t pieces = 1; pieces < 5; pieces++) {
        begin(pieces);
        want = 0;
        for (uint32_t i = 0; i < 6; i++) {
            char *p = text(sizes[i], (char)('a' + i));

            want += (i + 1) * sum_of((unsigned char *)p, sizes[i]);
            parcels_send(out, both, 2, p, sizes[i]);
        }
        assert_true(n_pieces[1] == pieces && n_pieces[2] == pieces); /* full is full */
        while (n_messages[1] < 6)
            parcels_room(out, 1);
        assert_int_equal(n_pieces[2], pieces); /* each way for itself */
        while (n_messages[2] < 6)
            parcels_room(out, 2);
        assert_true(sum[1] == want && sum[2] == want);
        assert_int_equal(last_len[2], sizes[5]);
        parcels_room(out, 1); /* there is nothing to send */
        end();
    }
}

/* Messages waiting at the end are freed. */
static void test_left_over(void **state)
{
    const uint32_t both[] = {1, 2};

    begin(1);
    for (int i = 0; i < 3; i++)
        parcels_send(out, both, 2, text(200000, 'x'), 200000);
    end();
}

static bool hears(uint32_t left, size_t n)
{
    static char piece[4 + 64];

    for (int i = 0; i < 4; i++)
        piece[i] = (char)(unsigned char)(left >> (8 * i));
    return parcels_input(in, 1, piece, 4 + n);
}

static void test_hostile(void **state)
{
    begin(9);
    assert_false(parcels_input(in, 1, "abc", 3));
    assert_false(hears(0, 0));
    assert_false(hears(7, 0));
    assert_false(hears(7, 8));
    assert_false(hears(0, 1));
    assert_false(hears(PARCEL_MAX_BYTES + 1, 64));
    assert_true(hears(PARCEL_MAX_BYTES, 64)); /* and takes only as much memory as has arrived */
    assert_false(hears(PARCEL_MAX_BYTES, 64));
    assert_false(hears(PARCEL_MAX_BYTES - 63, 64));
    assert_true(hears(PARCEL_MAX_BYTES - 64, 64));
    end();
    begin(9);
    dislikes = true;
    assert_true(hears(65, 64));
    assert_false(hears(1, 1));
    assert_int_equal(n_messages[1], 1);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_left_over),
        cmocka_unit_test(test_hostile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
