# SPDX-License-Identifier: BSD-3-Clause
# file_names.pl <root>: the name of a test or fuzz target that includes an internal header of a library ends in _internal, and git tracks no
# build product (where the tree is a clone).
use strict;
use warnings;
use File::Find;

my $root = shift or die "usage: file_names.pl ROOT\n";
chdir $root or die "$root: $!\n";
my (@paths, %internal);
my $wrong = 0;
sub wrong { print "FAILED: @_\n"; $wrong = 1; }

find({ no_chdir => 1, wanted => sub { $internal{$1} = 1 if m{/([^/]+\.h)$} } }, glob 'lib*/src');
find({ no_chdir => 1, wanted => sub {
    return $File::Find::prune = 1 if m{/(?:corpus|transcripts|build)$};
    push @paths, $_ if -f && m{(?<!_internal)\.(?:c|cc|h)$} && !m{^tests/bench/};
} }, 'tests');
@paths > 100 or die "few files in tests/\n";

for my $path (sort @paths) {
    my ($folder) = $path =~ m{^(.*)/};
    open my $in, '<', $path or die "$path: $!\n";
    while (<$in>) {
        my ($header, $last) = /^\s*#\s*include\s*"((?:.*\/)?([^"\/]+))"/ or next;
        next unless $header =~ m{/src/|internal\.h$} || ($internal{$last} && !-e "$folder/$header");
        wrong("$path:$.: includes $header, and is not called ..._internal");
        last;
    }
}

for (-e '.git' ? `git -c safe.directory='*' ls-files` : ()) {
    chomp;
    wrong("$_ is a build product; git must not track it") if m{\.(?:pyc|o|a|so|gcda|gcno|gcov|profraw)$|/__pycache__/};
}
print scalar(@paths), " files\n";
exit $wrong;
