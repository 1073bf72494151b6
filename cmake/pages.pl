# SPDX-License-Identifier: BSD-3-Clause
# pages.pl TREE FOLDER: copies the pages of the tree's documentation to the folder, each at its path: README.md, every file that a page names by a
# relative link, and of a linked folder its README.md, or else its files. So each relative link leads somewhere there too.
use strict;
use warnings;
use File::Basename qw(dirname);
use File::Copy qw(copy);
use File::Path qw(make_path);
use File::Spec;

die "usage: pages.pl TREE FOLDER\n" unless @ARGV == 2;
my ($tree, $to) = @ARGV;
my @todo = ('README.md');
my %seen;
while (defined(my $file = shift @todo)) {
    next if $seen{$file}++;
    if (-d "$tree/$file") {
        push @todo, -e "$tree/$file/README.md" ? "$file/README.md" : grep { -f "$tree/$_" } map { s/^\Q$tree\E\///r } glob "\Q$tree/$file\E/*";
        next;
    }
    make_path(dirname("$to/$file"));
    copy("$tree/$file", "$to/$file") or die "$to/$file: $!\n";
    next unless $file =~ /\.md$/;
    open my $f, '<', "$tree/$file" or die "$tree/$file: $!\n";
    my $text = do { local $/; <$f> };
    while ($text =~ /\]\(([^)\s#]+)/g) {
        my $link = $1;
        next if $link =~ /^[a-z]+:/;
        my $path = File::Spec->canonpath(dirname($file) . "/$link");
        1 while $path =~ s{(^|/)(?!\.\./)[^/]+/\.\.(/|$)}{$1};
        push @todo, $path =~ s{^\./|/$}{}gr;
    }
}
