# SPDX-License-Identifier: BSD-3-Clause
# file_names.pl <root>: a file name occurs once below tests/ (a folder's CMakeLists.txt and README.md, corpora and transcripts aside), and
# the name of a test or fuzz target that includes an internal header of a library ends in _internal.
use strict;
use warnings;
use File::Find;

my $root = shift or die "usage: file_names.pl ROOT\n";
chdir $root or die "$root: $!\n";
my (%paths, %internal, $wrong);
$wrong = 0;
sub wrong { print "FAILED: @_\n"; $wrong = 1; }

find({ no_chdir => 1, wanted => sub { $internal{$1} = 1 if m{/([^/]+\.h)$} } }, glob 'lib*/src');
find({ no_chdir => 1, wanted => sub {
    return $File::Find::prune = 1 if m{/(?:corpus|transcripts|build)$};
    push @{ $paths{$1} }, $_ if -f && m{/([^/]+)$} && $1 !~ /^(?:CMakeLists\.txt|README\.md)$/;
} }, 'tests');
keys %paths > 100 or die "few files in tests/\n";

for my $name (sort keys %paths) {
    wrong("one name for @{ $paths{$name} }") if @{ $paths{$name} } > 1;
    next unless $name =~ /\.(?:c|cc|h)$/ && $name !~ /_internal\./;
    for my $path (grep { !m{^tests/bench/} } @{ $paths{$name} }) {
        my ($folder) = $path =~ m{^(.*)/};
        open my $in, '<', $path or die "$path: $!\n";
        while (<$in>) {
            my ($header, $last) = /^\s*#\s*include\s*"((?:.*\/)?([^"\/]+))"/ or next;
            next unless $header =~ m{/src/|internal\.h$} || ($internal{$last} && !-e "$folder/$header");
            wrong("$path:$.: includes $header, and is not called ..._internal");
            last;
        }
    }
}
print scalar(keys %paths), " names\n";
exit $wrong;
