# SPDX-License-Identifier: BSD-3-Clause
# links.pl FOLDER: each relative link of each page (*.md) below the folder, of unpacked packages, leads to a file or folder there.
use strict;
use warnings;
use File::Find;

my ($n, $wrong) = (0, 0);
find(sub {
    return unless /\.md$/ && -f;
    open my $f, '<', $_ or die "$File::Find::name: $!\n";
    my $text = do { local $/; <$f> };
    while ($text =~ /\]\(([^)\s#]+)/g) {
        next if $1 =~ /^[a-z]+:/;
        $n++;
        -e $1 or print "FAILED: $File::Find::name: $1 is not there\n" and $wrong++;
    }
}, @ARGV);
print "$n links\n";
exit($wrong != 0 || $n < 100);
