# SPDX-License-Identifier: BSD-3-Clause
# not_blank.pl <file.png> light|dark: status 0 when the picture, of 8-bit RGB or RGBA, has content in each tenth of its height and several
# colours, and its first pixel is light or dark.
use strict;
use warnings;
use Compress::Zlib;

open my $in, '<:raw', $ARGV[0] or die "$ARGV[0]: $!\n";
local $/;
my $png = <$in>;
substr($png, 0, 8) eq "\x89PNG\r\n\x1a\n" or die "no PNG\n";
my ($width, $height, $depth, $colour, undef, undef, $interlace) = unpack 'N N C5', substr $png, 16, 13;
die "PNG of another kind: depth $depth, colour $colour\n" if $depth != 8 || ($colour != 2 && $colour != 6) || $interlace;
my $bytes = $colour == 2 ? 3 : 4;
my ($data, $at) = ('', 8);
while ($at < length $png) {
    my ($length, $type) = unpack 'N a4', substr $png, $at, 8;
    $data .= substr $png, $at + 8, $length if $type eq 'IDAT';
    $at += $length + 12;
}
$data = uncompress($data) or die "damaged\n";
my $row = $width * $bytes + 1;
length $data == $row * $height or die "of another size\n";
my ($red, $green, $blue) = unpack 'x C3', $data; # no filter changes it
(($red + $green + $blue > 384) ? 'light' : 'dark') eq $ARGV[1] or die "$ARGV[0]: its paper is not $ARGV[1]\n";
# A row that is filtered (byte 0) and otherwise zero repeats the one above or the pixel at its left: nothing is drawn in it.
my (@drawn, %values);
for my $y (0 .. $height - 1) {
    my $line = substr $data, $y * $row + 1, $row - 1;
    $drawn[int(10 * $y / $height)]++ if $line =~ /[^\x00\xff]/;
    $values{$_}++ for unpack 'C*', substr $line, 0, 3000;
}
for my $tenth (0 .. 9) {
    ($drawn[$tenth] // 0) > $height / 200 or die "$ARGV[0]: tenth " . ($tenth + 1) . " of the height is blank\n";
}
keys %values > 50 or die "$ARGV[0]: hardly any colour\n";
