// `npm run structure -- [checkout]`: figures about the TypeScript of a checkout, by default this one (docs/adr/0050).
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import ts from 'typescript';

interface Figures {
  files: number;
  lines: number;
  'lines of code': number;
  exports: number;
  'functions over 40 lines': number;
  'functions with more than 4 parameters': number;
  'casts (`as`, but `as const`)': number;
  'casts by `unknown`, or to `never`': number;
  'lines in repeated passages': number;
}

const noFigures = (): Figures => ({
  files: 0,
  lines: 0,
  'lines of code': 0,
  exports: 0,
  'functions over 40 lines': 0,
  'functions with more than 4 parameters': 0,
  'casts (`as`, but `as const`)': 0,
  'casts by `unknown`, or to `never`': 0,
  'lines in repeated passages': 0,
});

const longFunction = 40;
const mostParameters = 4;
/** A passage is repeated when as many lines of code stand together in two places. */
const passageLines = 6;

const isTest = (file: string): boolean =>
  /(^|\/)(test|bench|contract-suite)\/|\.test\.tsx?$|contract-suite\.ts$/.test(file);

/** The numbers of the lines with code: neither empty nor only a comment. */
function codeLines(source: ts.SourceFile): Set<number> {
  const found = new Set<number>();
  const visit = (node: ts.Node): void => {
    const children = node.getChildren(source);
    if (children.length === 0 && node.getWidth(source) > 0) {
      const first = source.getLineAndCharacterOfPosition(node.getStart(source)).line;
      const last = source.getLineAndCharacterOfPosition(node.getEnd()).line;
      for (let line = first; line <= last; line += 1) found.add(line);
    }
    for (const child of children) if (!ts.isJSDoc(child)) visit(child);
  };
  visit(source);
  return found;
}

const isExported = (node: ts.Node): boolean =>
  ts.canHaveModifiers(node) &&
  (ts.getModifiers(node)?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword) ?? false);

function exportsOf(statement: ts.Statement): number {
  if (ts.isExportAssignment(statement)) return 1;
  if (ts.isExportDeclaration(statement)) {
    const clause = statement.exportClause;
    return clause && ts.isNamedExports(clause) ? clause.elements.length : 1;
  }
  if (!isExported(statement)) return 0;
  return ts.isVariableStatement(statement) ? statement.declarationList.declarations.length : 1;
}

const isTyped = (node: ts.Node, kind: ts.SyntaxKind): boolean =>
  ts.isAsExpression(node) && node.type.kind === kind;

function countCast(node: ts.AsExpression, figures: Figures): void {
  if (ts.isConstTypeReference(node.type)) return;
  figures['casts (`as`, but `as const`)'] += 1;
  const isByUnknown = isTyped(node.expression, ts.SyntaxKind.UnknownKeyword);
  if (isByUnknown || isTyped(node, ts.SyntaxKind.NeverKeyword))
    figures['casts by `unknown`, or to `never`'] += 1;
}

function countFunction(
  node: ts.FunctionLikeDeclaration,
  source: ts.SourceFile,
  code: ReadonlySet<number>,
  figures: Figures,
): void {
  const first = source.getLineAndCharacterOfPosition(node.getStart(source)).line;
  const last = source.getLineAndCharacterOfPosition(node.getEnd()).line;
  let lines = 0;
  for (let line = first; line <= last; line += 1) if (code.has(line)) lines += 1;
  if (lines > longFunction) figures['functions over 40 lines'] += 1;
  if (node.parameters.length > mostParameters) figures['functions with more than 4 parameters'] += 1;
}

interface Passage {
  readonly figures: Figures;
  readonly file: string;
  readonly lines: readonly number[];
}

/** The passages of a file by their text. Imports and lines without a letter do not count. */
function passagesOf(
  file: string,
  text: string,
  code: ReadonlySet<number>,
  figures: Figures,
): [string, Passage][] {
  const all = text.split('\n').map((line) => line.trim());
  const counted = [...code]
    .sort((one, other) => one - other)
    .filter(
      (line) => /\w/.test(all[line] ?? '') && !/^(import\b|\} from '|type \w+,$)/.test(all[line] ?? ''),
    );
  const found: [string, Passage][] = [];
  for (let at = 0; at + passageLines <= counted.length; at += 1) {
    const lines = counted.slice(at, at + passageLines);
    found.push([lines.map((line) => all[line]).join('\n'), { figures, file, lines }]);
  }
  return found;
}

function figuresOf(checkout: string): Map<string, Figures> {
  const listed = execFileSync('git', ['-C', checkout, 'ls-files', '*.ts', '*.tsx'], {
    encoding: 'utf8',
    maxBuffer: 1e8,
  });
  const parts = new Map([
    ['source', noFigures()],
    ['tests', noFigures()],
  ]);
  const passages = new Map<string, Passage[]>();
  for (const file of listed.split('\n').filter((name) => name !== '' && !name.endsWith('.d.ts'))) {
    const figures = parts.get(isTest(file) ? 'tests' : 'source') ?? noFigures();
    const text = readFileSync(path.join(checkout, file), 'utf8');
    const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
    const code = codeLines(source);
    figures.files += 1;
    figures.lines += text.split('\n').length - 1;
    figures['lines of code'] += code.size;
    for (const statement of source.statements) figures.exports += exportsOf(statement);
    const visit = (node: ts.Node): void => {
      if (ts.isAsExpression(node)) countCast(node, figures);
      if (ts.isFunctionLike(node) && 'body' in node && node.body) countFunction(node, source, code, figures);
      node.forEachChild(visit);
    };
    visit(source);
    for (const [passage, place] of passagesOf(file, text, code, figures))
      passages.set(passage, [...(passages.get(passage) ?? []), place]);
  }
  const repeated = new Map<string, Figures>();
  for (const places of passages.values())
    if (places.length > 1)
      for (const { figures, file, lines } of places)
        for (const line of lines) repeated.set(`${file}:${line}`, figures);
  for (const figures of repeated.values()) figures['lines in repeated passages'] += 1;
  return parts;
}

const [checkout = path.dirname(import.meta.dirname)] = process.argv.slice(2);
const parts = figuresOf(checkout);
const names = Object.keys(noFigures()) as (keyof Figures)[];
const rows = [
  ['', ...parts.keys()],
  ['---', ...[...parts.keys()].map(() => '--:')],
  ...names.map((name) => [name, ...[...parts.values()].map((figures) => figures[name].toLocaleString('en'))]),
];
for (const row of rows) process.stdout.write(`| ${row.join(' | ')} |\n`);
