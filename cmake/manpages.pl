# SPDX-License-Identifier: BSD-3-Clause
# manpages.pl --name <library> --version <x.y.z> --include <directory> --xml <directory> --out <directory> [--readme <file>] [--core <library>]
#
# Doxygen's reading of the public headers (GENERATE_XML) as manual pages: a page of section 3 for each public function and struct, and
# <library>(7), which has the model, lists of the functions, structs and constants, and the README's program. It first removes all pages from
# <directory>. --core names the library whose back-end this one is.
#
# Why not Doxygen's own pages (GENERATE_MAN): its `man 3 shmht_get` is the whole of shmht.h, 1,200 lines where 35 answer the question, without
# the meaning of the error codes; there is no shmht(7); each member of a struct takes a page name, free(3) and index(3) among them; and mandoc
# warns of every second line.
use strict;
use warnings;
use File::Path qw(make_path);
use Getopt::Long;
use POSIX qw(strftime);

my %opt;
GetOptions(\%opt, map { "$_=s" } qw(name version include xml out readme core)) && !@ARGV or exit 2;
for (qw(name version include xml out)) { defined $opt{$_} or die "manpages.pl: --$_ is missing\n" }
my %section = (Units => 'UNITS', Threads => 'THREADS', Allocates => 'MEMORY', Cost => 'COST', Source => 'SOURCE');
my @section_order = qw(Units Threads Allocates Cost Source);
my (%functions, %types, %constants, @headers);

# ---------------------------------------------------------------- XML: an element is { name, its attributes, in => [elements and texts] }

sub slurp {
    open my $in, '<:encoding(UTF-8)', $_[0] or die "manpages.pl: $_[0]: $!\n";
    local $/;
    return scalar <$in>;
}

sub parse_xml {
    my ($text) = @_;
    my %entity = (lt => '<', gt => '>', amp => '&', quot => '"', apos => "'");
    my @open = ({ name => '', in => [] });
    while ($text =~ /\G(?:<\?.*?\?>|<(\/?)(\w+)([^>]*?)(\/?)>|([^<]+))/gcs) {
        my ($close, $name, $attributes, $empty, $words) = ($1, $2, $3, $4, $5);
        if (defined $words) {
            push @{ $open[-1]{in} }, $words =~ s/&(\w+);/$entity{$1} \/\/ "&$1;"/ger;
        } elsif ($close) {
            pop @open;
        } elsif (defined $name) {
            my $element = { $attributes =~ /([\w:]+)="([^"]*)"/g, name => $name, in => [] };
            push @{ $open[-1]{in} }, $element;
            push @open, $element unless $empty;
        }
    }
    return $open[0];
}

sub children { my ($e, $name) = @_; return grep { ref && $_->{name} eq $name } @{ $e->{in} } }
sub child { return (children(@_))[0] // { name => $_[1], in => [] } }
sub words { return join '', map { ref ? words($_) : $_ } @{ $_[0]{in} } }
sub one_line { return $_[0] =~ s/\s+/ /gr =~ s/^ | $//gr }
sub text_of { return one_line(words(child(@_))) }
sub everywhere { my ($e, $name) = @_; return map { ($_->{name} eq $name ? $_ : (), everywhere($_, $name)) } grep { ref } @{ $e->{in} } }

# ---------------------------------------------------------------- roff

sub escape {
    my ($text) = @_;
    $text =~ s/\\/\\e/g;
    $text =~ s/-/\\-/g;
    $text =~ s/\^/\\(ha/g;
    $text =~ s/~/\\(ti/g;
    $text =~ s/`/\\(ga/g;
    $text =~ s/\x{A0}/\\ /g;
    $text =~ s/([^\x00-\x7f])/sprintf '\\[u%04X]', ord $1/ge;
    return $text;
}
# The lines of a line of code that is wider than $width: a comment at its end goes above it; the rest is broken outside of texts, after the
# last && or || that fits, or else the last comma. A table stays as it is.
sub narrow {
    my ($line, $width) = @_;
    return $line if length $line <= $width || $line =~ m{\S {2,}(?!//|/\*)\S};
    my ($indent) = $line =~ /^( *)/;
    return map { narrow($_, $width) } "$indent$2", "$indent$1" if $line =~ m{^ *(\S.*?)\s+(// .*|/\*.*\*/)$};
    my $fits = $width - 2; # without the end
    my $next = $line =~ m{^ *(//|/\*) } ? $1 eq '//' ? '// ' : '   ' : '';
    for my $end ($next ? '\S' : ('(?:&&|\|\|)', '[,;]', '=')) {
        return $1, narrow($indent . ($next || ' ' x 8) . $2, $width)
            if $line =~ m{^(.{1,$fits}$end) (?!\*/)((?:[^"]|"(?:\\.|[^"\\])*")*)$};
    }
    return $line;
}
sub code { # $columns is its indentation in the page
    my ($text, $columns) = @_;
    return ".EX\n" . join('', map { (my $line = escape($_)) =~ s/'/\\(aq/g; $line =~ s/^\./\\&./; "$line\n" } map { narrow($_, 80 - $columns) } split /\n/, $text) . ".EE\n";
}
sub bold { return '\fB' . escape($_[0]) . '\fP' }

my %font = (computeroutput => 'B', bold => 'B', ref => 'B', parametername => 'I', emphasis => 'I');
sub inline {
    my ($node) = @_;
    return escape($node) =~ s/\b([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b/$constants{$1} ? "\\fB$1\\fP" : $1/ger unless ref $node;
    my $font = $font{ $node->{name} };
    return "\\f$font" . escape(words($node) =~ s/^( +)|( {2,})/"\x{A0}" x length($1 \/\/ $2)/ger) . '\fP' if $font;
    return '\-' if $node->{name} =~ /^[nm]dash$/;
    return join '', map { inline($_) } @{ $node->{in} };
}

# A paragraph, a sentence a line; no line begins as a request.
sub paragraph {
    my $text = one_line($_[0]);
    $text =~ s/^(?![b-z] )([a-z])(?=[a-z]*(?:[ ,;:.]|$))/\u$1/; # "n ranks" begins with a parameter
    $text =~ s/(?<=[a-z0-9)][.?!]) (?=[A-Z(\\])/\n/g;
    $text =~ s/^(?=[.'])/\\&/gm;
    return $text eq '' ? '' : "$text\n";
}

# A description's text without parameters, results and sections, which have places of their own in a page.
our $list_depth = 0;
sub blocks {
    my ($node) = @_;
    my ($out, $text) = ('', '');
    my $flush = sub { my $p = paragraph($text); $text = ''; $out .= ".PP\n" if $out ne '' && $p ne ''; $out .= $p };
    for my $in (@{ $node->{in} }) {
        my $name = ref $in ? $in->{name} : '';
        if ($name eq 'para') { $flush->(); my $more = blocks($in); $out .= ($out ne '' && $more ne '' && $more !~ /^\.(?:PP|IP|TP|RS)/ ? ".PP\n" : '') . $more }
        elsif ($name =~ /^(itemized|ordered)list$/) {
            $flush->();
            my ($kind, $n) = ($1, 0);
            local $list_depth = $list_depth + 1;
            $out .= ".RS 2\n" if $list_depth > 1;
            $out .= ($kind eq 'ordered' ? '.IP ' . ++$n . '. 4' : '.IP \(bu 2') . "\n" . blocks($_) =~ s/^\.PP$/.IP/gmr for children($in, 'listitem');
            $out .= ".RE\n" if $list_depth > 1;
        } elsif ($name eq 'verbatim' || $name eq 'programlisting') {
            $flush->();
            my $lines = $name eq 'verbatim' ? words($in) : join "\n", map { words($_) =~ s/\s+$//r } map { sp($_) } children($in, 'codeline');
            $out .= ".PP\n.RS 4\n" . code($lines =~ s/\A\n+//r, 11) . ".RE\n";
        } elsif ($name eq 'table') { # its first row are the titles
            $flush->();
            my ($titles, @rows) = map { [map { one_line(inline($_)) } children($_, 'entry')] } children($in, 'row');
            for my $row (@rows) {
                $out .= ".TP\n$row->[0]\n" . paragraph(join '; ', map { @$row < 3 || $titles->[$_] eq '' ? $row->[$_] : "$titles->[$_]: $row->[$_]" } 1 .. $#$row);
            }
        } elsif ($name !~ /^(?:parameterlist|simplesect)$/) { $text .= inline($in) }
    }
    $flush->();
    return $out;
}
sub sp { my ($line) = @_; $_->{in} = [' '] for everywhere($line, 'sp'); return $line }

# The paragraphs under a @tag: the title of a section, or `return`.
sub sections {
    my ($doc, $kind) = @_;
    my @found = grep { $_->{kind} eq $kind || ($_->{kind} eq 'par' && words(child($_, 'title')) eq $kind) } everywhere($doc, 'simplesect');
    return join ".PP\n", map { blocks({ in => [children($_, 'para')] }) } @found;
}

# ---------------------------------------------------------------- the headers' declarations

sub brief { return child($_[0], 'briefdescription') }
sub detailed { return child($_[0], 'detaileddescription') }
sub summary { # the brief line, or the first sentence
    my ($e) = @_;
    my $text = one_line(words(brief($e))) || one_line(words($e->{in}[0] ? detailed($e) : '')) =~ s/(?<=[a-z0-9)])[.:] (?=[A-Z]).*//r;
    return $text =~ s/[.:;]$//r;
}
sub add_constant {
    my ($e, $group) = @_;
    my $name = text_of($e, 'name');
    return if children($e, 'param') || $name =~ /__|_API$|_H$|_VERSION(_|$)|_LIKELY$/;
    my $value = text_of($e, 'initializer') =~ s/^= *//r;
    $constants{$name} = { name => $name, value => $value, text => inline(brief($e)) . ' ' . inline(detailed($e)) };
    push @{ $group->{constants} }, $name;
}

sub read_compound {
    my ($compound) = @_;
    my $header = $compound->{kind} eq 'file' && { compound => $compound, include => child($compound, 'location')->{file}, functions => [] };
    if (!$header) {
        my $name = text_of($compound, 'compoundname');
        return if $compound->{kind} !~ /^(?:struct|union)$/ || $name !~ /^\w+$/ || $name =~ /__/;
        $types{$name} = { e => $compound, what => $compound->{kind}, include => text_of($compound, 'includes') };
        return;
    }
    push @headers, $header;
    for my $group (children($compound, 'sectiondef')) {
        for my $member (children($group, 'memberdef')) {
            my ($kind, $name) = ($member->{kind}, text_of($member, 'name'));
            next if $name =~ /__/; # private
            if ($kind eq 'define') { add_constant($member, $group) }
            elsif ($kind eq 'enum') { add_constant($_, $group) for children($member, 'enumvalue') }
            elsif ($kind eq 'typedef') { $types{$name} = { e => $member, what => 'typedef', include => $header->{include} } }
            elsif ($kind eq 'function') {
                $functions{$name} = { e => $member, header => $header, group => $group, line => child($member, 'location')->{line} };
                push @{ $header->{functions} }, $name;
            }
        }
    }
    @{ $header->{functions} } = sort { $functions{$a}{line} <=> $functions{$b}{line} } @{ $header->{functions} };
}

# ---------------------------------------------------------------- pages

my $newest = 0;
sub write_page {
    my ($page, $section, $title, $text, @refs) = @_;
    my $date = strftime '%Y-%m-%d', gmtime($ENV{SOURCE_DATE_EPOCH} // $newest);
    $title =~ s/(?<=\w)\.\s.*// if length $title > 110;
    my %seen = ($page => 1);
    my @also = map { bold($_) . '(3)' } sort grep { !$seen{$_}++ } @refs;
    push @also, $section == 7 ? bold('pkg-config') . '(1)' : bold($opt{name}) . '(7)', $opt{core} ? bold($opt{core}) . '(7)' : ();
    make_path("$opt{out}/man$section");
    open my $out, '>:encoding(UTF-8)', "$opt{out}/man$section/$page.$section" or die "manpages.pl: $opt{out}: $!\n";
    print $out ".\\\" From the headers of lib$opt{name} by manpages.pl. SPDX-License-Identifier: BSD-3-Clause\n",
        '.TH ', escape(uc $page), " $section $date \"lib$opt{name} $opt{version}\" \"Fencepost\"\n.nr HY 0\n.nh\n.ad l\n",
        ".SH NAME\n", escape($page), ' \- ', escape($title =~ s/^([A-Z])(?=[a-z ])/\l$1/r), "\n$text.SH SEE ALSO\n", join(",\n", @also), "\n";
    close $out or die "manpages.pl: $opt{out}: $!\n";
}

sub references { # the pages that an element names
    my ($text) = map { words($_) } @_;
    return (grep { $functions{$_} } $text =~ /\b(\w+)\(\)/g), (grep { $types{$_} } $text =~ /\b(?:struct|enum) (\w+)|\b(\w+_fn)\b/g ? $text =~ /\b(\w+)\b/g : ());
}

sub list_constants {
    return join '', map {
        my $c = $constants{$_};
        ".TP\n" . bold($_) . ($c->{value} =~ /^[^\\\n]+$/ ? ' ' . escape($c->{value}) : '') . "\n" . (paragraph($c->{text}) || "\\&\n")
    } @_;
}
sub named_constants { # a name, or the few that begin with NAME_*
    my (%seen, @names);
    for ($_[0] =~ /\b([A-Z][A-Z0-9]*_[A-Z0-9_]*\*?)/g) {
        my $prefix = s/\*$//r;
        my @found = $prefix eq $_ ? grep { $constants{$_} } $_ : sort grep { index($_, $prefix) == 0 } keys %constants;
        push @names, grep { !$seen{$_}++ } @found unless @found > 12;
    }
    return @names;
}

sub titled { return $_[1] eq '' ? '' : "$_[0]\n$_[1]" }
sub synopsis { return ".SH SYNOPSIS\n.nf\n" . bold("#include <$_[0]>") . "\n" . ($_[1] // '') . ".fi\n" }
sub described { # brief and detailed text
    my ($e) = @_;
    return join(".PP\n", grep { $_ ne '' } blocks(brief($e)), blocks(detailed($e))) =~ s/^\.PP\n(?=\.[PIT]P)//gmr;
}
sub declaration { # as a synopsis: lines of at most 73 columns, which a terminal of 80 shows
    my ($start, @parameters) = @_;
    my $out = length("$start($parameters[0],") > 72 && $start =~ s/^(.* )(?=\*?\w+$)// ? bold($1 =~ s/ $//r) . "\n" : '';
    my ($line, $indent) = ("$start(", ' ' x (length($start) + 1));
    while (@parameters) {
        my $next = shift(@parameters) . (@parameters ? ',' : ');');
        if (length("$line $next") > 73 && $line !~ /\($/) { $out .= bold($line) . "\n"; $line = $indent . $next }
        else { $line .= ($line =~ /\($/ ? '' : ' ') . $next }
    }
    return ".PP\n$out" . bold($line) . "\n";
}
sub declared { # type and name: `char *p`, `int a[4]`
    my ($type, $name, $after) = @_;
    return one_line(($type =~ /[*(]$/ ? "$type$name" : "$type $name") . $after) =~ s/(?<=\w)\(\*/ (*/r;
}

sub function_page {
    my ($name) = @_;
    my ($f, $doc) = ($functions{$name}, detailed($functions{$name}{e}));
    my @parameters = map { declared(text_of($_, 'type'), text_of($_, 'declname'), text_of($_, 'array')) =~ s/ $//r } children($f->{e}, 'param');
    my $type = text_of($f->{e}, 'type') =~ s/^(?:static|inline|\s)+//r;
    my $text = synopsis($f->{header}{include}, declaration(declared($type, $name, ''), @parameters ? @parameters : 'void'));
    $text .= ".SH DESCRIPTION\n" . described($f->{e});
    $text .= titled('.SS ' . escape(text_of($f->{group}, 'header')), blocks(child($f->{group}, 'description'))) if child($f->{group}, 'description')->{in}[0];
    $text .= titled('.SH PARAMETERS', join '', map {
        my @names = children(child($_, 'parameternamelist'), 'parametername');
        my $direction = $names[0]{direction} ? " [$names[0]{direction}]" : '';
        ".TP\n" . join(', ', map { "\\fI" . escape(words($_)) . '\fP' } @names) . "$direction\n" . blocks(child($_, 'parameterdescription'))
    } everywhere($doc, 'parameteritem'));
    $text .= titled('.SH RETURN VALUE', sections($doc, 'return'));
    my @named = named_constants(words($doc) . words(child($f->{group}, 'description')));
    my %error = map { $_ => scalar($constants{$_}{value} =~ /^\(-\d+\)$/) } @named;
    $text .= titled('.SH ERRORS', list_constants(grep { $error{$_} } @named));
    $text .= titled('.SH CONSTANTS', list_constants(grep { !$error{$_} } @named));
    for my $tag (@section_order) {
        my $said = sections($doc, $tag);
        $said = sections(detailed($f->{header}{compound}), $tag) if $said eq '' && $tag eq 'Threads'; # of the whole header
        $text .= titled(".SH $section{$tag}", $said);
    }
    write_page($name, 3, summary($f->{e}), $text, references($f->{e}));
}

sub member_text { # of a function's pointer with its parameters and result
    my ($e) = @_;
    my $said = described($e);
    for my $p (everywhere($e, 'parameteritem')) {
        $said .= ".PP\n\\fI" . escape(text_of($p, 'parameternamelist')) . '\fP: ' . blocks(child($p, 'parameterdescription')) =~ s/^([A-Z])(?=[a-z ])/\l$1/r;
    }
    my $return = sections($e, 'return');
    $said .= ".PP\nReturns $return" =~ s/(?<=Returns )([A-Z])(?=[a-z ])/\l$1/r if $return ne '';
    return $said =~ s/^\.PP$/.IP/gmr;
}

sub type_page {
    my ($name) = @_;
    my ($type, $e) = ($types{$name}, $types{$name}{e});
    my @members = grep { text_of($_, 'name') =~ /^\w+$/ } map { children($_, 'memberdef') } children($e, 'sectiondef');
    my $code = $type->{what} eq 'typedef' ? text_of($e, 'definition') . ";\n"
        : "$type->{what} $name {\n" . join('', map { '    ' . declared(text_of($_, 'type'), text_of($_, 'name'), text_of($_, 'argsstring')) =~ s/(.{30,60},) /$1\n            /gr . ";\n" } @members) . "};\n";
    my $text = synopsis($type->{include}) . ".PP\n" . code($code, 7) . ".SH DESCRIPTION\n" . described($e);
    $text .= titled('.SH MEMBERS', join '', map { my $said = member_text($_); $said eq '' ? '' : ".TP\n\\fI" . text_of($_, 'name') . "\\fP\n" . $said } @members);
    $text .= titled('.SH CONSTANTS', list_constants(named_constants(words($e))));
    my @users = grep { words($functions{$_}{e}) =~ /\b$name\b/ } keys %functions;
    write_page($name, 3, summary($e), $text, references($e), @users > 40 ? () : @users);
}

sub overview_page {
    my $main = $headers[0];
    my $text = synopsis($main->{include}) . ".PP\n\\fBcc\\fP \\fIfile\\fP.c " . escape("\$(pkg-config --cflags --libs $opt{name})") . "\n";
    for my $header (@headers) {
        $text .= $header == $main ? ".SH DESCRIPTION\n" : '.SH ' . escape(uc $header->{include} =~ s/^.*\/|\.h$//gr) . "\n";
        $text .= described($header->{compound});
        $text .= titled('.SS ' . ucfirst lc $section{$_}, sections(detailed($header->{compound}), $_)) for @section_order;
    }
    my $item = sub { my ($name, $e) = @_; return ".TP\n" . bold($name) . "(3)\n" . (paragraph(escape(summary($e))) || "\\&\n") };
    $text .= ".SH FUNCTIONS\n";
    for my $header (@headers) {
        $text .= titled('.SS ' . escape($header->{include}), join '', map { $item->($_, $functions{$_}{e}) } @{ $header->{functions} });
    }
    $text .= titled('.SH TYPES', join '', map { $item->($_, $types{$_}{e}) } grep { !$functions{$_} } sort keys %types);
    $text .= titled('.SH CONSTANTS', join '', map {
        my $title = text_of($_, 'header');
        ($title eq '' ? '' : '.SS ' . escape($title) . "\n") . blocks(child($_, 'description')) . list_constants(@{ $_->{constants} })
    } sort { text_of($a, 'header') eq '' ? -1 : text_of($b, 'header') eq '' } grep { $_->{constants} } map { children($_->{compound}, 'sectiondef') } @headers);
    $text .= ".SH EXAMPLES\n" . code($1, 7) if $opt{readme} && slurp($opt{readme}) =~ /^```c\n(.*?)^```$/ms;
    write_page($opt{name}, 7, summary($main->{compound}), $text);
}

for my $file (glob "\"$opt{xml}\"/*.xml") {
    read_compound($_) for children(child(parse_xml(slurp($file)), 'doxygen'), 'compounddef');
}
my %place; # the headers in the order of the main one's includes
@place{"$opt{name}.h", slurp("$opt{include}/$opt{name}.h") =~ /^#include <([^>]+)>/gm} = 0 .. 999;
@headers = sort { ($place{ $a->{include} } // 999) <=> ($place{ $b->{include} } // 999) || $a->{include} cmp $b->{include} } @headers;
for (map { (stat "$opt{include}/$_->{include}")[9] } @headers) { $newest = $_ if $_ > $newest }
%functions or die "manpages.pl: no documented function in $opt{include}\n";

unlink glob "\"$opt{out}\"/man[37]/*.[37]";
function_page($_) for sort keys %functions;
type_page($_) for grep { !$functions{$_} } sort keys %types;
overview_page();
printf "%d pages of lib%s\n", 1 + keys(%functions) + grep({ !$functions{$_} } keys %types), $opt{name};
