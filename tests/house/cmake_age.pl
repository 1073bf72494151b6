# SPDX-License-Identifier: BSD-3-Clause
# cmake_age.pl <root>: no file of CMake's names a command, option or variable that is newer than 3.16, from the list below, and each
# cmake_minimum_required() says 3.16.
use strict;
use warnings;
use File::Find;

my %newer = ( # since => patterns
    '3.17' => ['CMAKE_CURRENT_FUNCTION\w*', '\bZIP_LISTS\b', '-E\s+rm\b', '\bCHECK_(START|PASS|FAIL)\b', 'CMAKE_FIND_DEBUG_MODE'],
    '3.18' => ['\bcmake_language\b', '\bfile\(\s*(ARCHIVE_\w+|CONFIGURE)\b', '\bstring\(\s*HEX\b', '-E\s+cat\b', '\bCheckLinkerFlag\b',
        '\bfind_(program|path|library|file)\([^)]*\bREQUIRED\b', '\bTARGET_DIRECTORY\b', '\bECHO_(OUTPUT|ERROR)_VARIABLE\b'],
    '3.19' => ['\bstring\(\s*JSON\b', '\bfile\(\s*(REAL_PATH|CHMOD\w*)\b', '\bCOMMAND_ERROR_IS_FATAL\b', '\bCheckSourceCompiles\b',
        '\bfile\(\s*GENERATE\b[^)]*\bTARGET\b', '\bNO_SOURCE_PERMISSIONS\b'],
    '3.20' => ['\bcmake_path\b', '\bNEWLINE_STYLE\b', '\bOUTPUT\s+"?\$<', '\bCMAKE_C_BYTE_ORDER\b', '--test-dir\b',
        '\b(FILE|USE_SOURCE)_PERMISSIONS\b'],
    '3.21' => ['\b\w+_IS_TOP_LEVEL\b', '\bfile\(\s*(COPY_FILE|EXPAND_TILDE)\b', '\bRUNTIME_DEPENDENCIES\b', '\bTARGET_RUNTIME_DLLS\b',
        '\bIMPORTED_RUNTIME_ARTIFACTS\b', '\bC_STANDARD\s+(17|23)\b', '\bc_std_(17|23)\b', '--install-prefix\b'],
    '3.22' => ['\bENVIRONMENT_MODIFICATION\b', '\bCMAKE_REQUIRE_FIND_PACKAGE_\w+', '\bDISTRIB_INFO\b'],
    '3.23' => ['\bFILE_SET\b', '\bHEADER_SETS?\b', '\bBASE_DIRS\b'],
    '3.24' => ['\bPATH_EQUAL\b', '\$<PATH:', '\$<LINK_(GROUP|LIBRARY):', '\bFIND_PACKAGE_ARGS\b', '\bCOMPILE_WARNING_AS_ERROR\b',
        '--fresh\b', '\bCMAKE_COLOR_DIAGNOSTICS\b', '\bLINK_LIBRARY_OVERRIDE\b'],
    '3.25' => ['\bblock\(', '\breturn\(\s*PROPAGATE\b', '\bVALIDATOR\b', '\bCMAKE_ERROR_ON_UNDEFINED\b'],
);

my $root = shift or die "usage: cmake_age.pl ROOT\n";
chdir $root or die "$root: $!\n";
my ($n, $wrong) = (0, 0);
sub wrong { print "FAILED: @_\n"; $wrong = 1; }

sub check {
    my ($file) = @_;
    open my $in, '<', $file or die "$file: $!\n";
    my $text = do { local $/; <$in> };
    $n++;
    $text =~ s/(?:^|(?<=\s))#[^\n]*//g; # comments
    wrong("$file: cmake_minimum_required(VERSION $1)") if $text =~ /cmake_minimum_required\(VERSION (?!3\.16\.\.\.3\.25\))([^)]*)\)/;
    for my $since (sort keys %newer) {
        for my $pattern (@{ $newer{$since} }) {
            while ($text =~ /($pattern)/g) {
                next if $1 eq 'FENCEPOST_IS_TOP_LEVEL'; # ours
                my $line = 1 + (substr($text, 0, $-[0]) =~ tr/\n//);
                wrong("$file:$line: $1 is of CMake $since");
            }
        }
    }
}

find({ no_chdir => 1, wanted => sub {
    $File::Find::prune = 1 if m{^\./(build|\.git)$};
    check($_) if -f && m{(?:/CMakeLists\.txt|\.cmake|\.cmake\.in)$};
} }, '.');
$n > 40 or die "only $n files were found\n";
print "$n files\n";
exit $wrong;
