# SPDX-License-Identifier: BSD-3-Clause
# declared.pl <directory> < PREPROCESSED: prints the names of the functions and objects with external linkage that the headers under
# <directory> declare, one a line. It reads the output of `cc -E`, whose line markers say where each line comes from.
use strict;
use warnings;

my $directory = shift or die "usage: declared.pl <directory>\n";
my ($mine, $text) = (0, '');
while (my $line = <STDIN>) {
    if ($line =~ /^#\s*(?:line\s+)?\d+\s+"([^"]*)"/) {
        $mine = index($1, "$directory/") == 0;
    } elsif ($mine) {
        $text .= $line;
    }
}
$text =~ s/"(?:\\.|[^"\\])*"/""/g;
my $parens = qr/(\((?:[^()]++|(?-1))*+\))/;
$text =~ s/\b(?:__attribute__|__asm__|_Static_assert)\s*$parens//g;
my $braces = qr/(\{(?:[^{}]++|(?-1))*+\})/;
$text =~ s/$braces/;/g; # bodies of structs and of inline functions
my %names;
for my $statement (split /;/, $text) {
    next if $statement =~ /^\s*(?:static|typedef|inline)\b/;
    if ($statement =~ /\b(\w+)\s*\(/) {
        $names{$1} = 1;
    } elsif ($statement =~ /^\s*extern\b.*?(\w+)\s*(?:\[[^\]]*\]\s*)*$/s) {
        $names{$1} = 1;
    }
}
print "$_\n" for sort keys %names;
