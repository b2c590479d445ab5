import { Tokenizer, TypeGuards } from 'liquidjs';
import { engine } from './engine.ts';
import { limits } from './limits.ts';

const endAt = (ends: Int32Array, at: number): number => ends[at] ?? 0;

/**
 * Where an output or a tag ends that the engine reads at a place of the text: in an output outside its texts, in a text of it, or in a tag.
 * 0 without an end. A backslash in a text hides the next character; a tag knows no texts.
 */
function endsIn(text: string, first: number) {
  const newEnds = () => new Int32Array(text.length + 2);
  const [inTag, inOutput, inSingle, inDouble] = [newEnds(), newEnds(), newEnds(), newEnds()];
  for (let at = text.length - 1; at >= first; at -= 1) {
    const character = text.charAt(at);
    const next = at + (character === '\\' ? 2 : 1);
    inTag[at] = endAt(inTag, at + 1);
    inOutput[at] = endAt(inOutput, at + 1);
    inSingle[at] = endAt(inSingle, next);
    inDouble[at] = endAt(inDouble, next);
    if (character === '}' && text[at - 1] === '%') inTag[at] = at + 1;
    else if (character === '}' && text[at - 1] === '}') inOutput[at] = at + 1;
    else if (character === '"' || character === "'") {
      const inText = character === '"' ? inDouble : inSingle;
      inText[at] = endAt(inOutput, at + 1);
      inOutput[at] = endAt(inText, at + 1);
    }
  }
  return { inTag, inOutput };
}

/** Expressions that end at one place, because each begins within the one before. Without a limit their lengths would add up to the square of the text's. */
const mostWithOneEnd = 4;

/**
 * Each output and tag that the engine would read if it began at this `{{` or `{%`, by its place in the text. Also those within another,
 * for what stands before may be no expression, e.g. JavaScript. Of those that end at one place the shortest four; none that is longer
 * than an expression may be. The time is linear in the length of the text, whatever it holds.
 */
export function outputsAndTagsAt(text: string): ReadonlyMap<number, string> {
  const found = new Map<number, string>();
  const first = text.search(/\{[{%]/);
  if (first === -1) return found;
  const { inTag, inOutput } = endsIn(text, first);
  const counts = new Map<number, number>();
  for (let at = text.length - 1; at >= first; at -= 1) {
    if (text[at] !== '{') continue;
    const kind = text[at + 1];
    const end = kind === '{' ? endAt(inOutput, at + 2) : kind === '%' ? endAt(inTag, at + 2) : 0;
    if (end === 0 || end - at > limits.sourceLength) continue;
    const count = (counts.get(end) ?? 0) + 1;
    counts.set(end, count);
    if (count <= mostWithOneEnd) found.set(at, text.slice(at, end));
  }
  return found;
}

/** The outputs and tags of an expression, as the engine reads them. Undefined when it cannot read the expression, or will not for its length. */
export function outputsAndTags(expression: string): readonly string[] | undefined {
  if (expression.length > limits.sourceLength) return undefined;
  const { operators, groupedExpressions } = engine.options;
  try {
    return new Tokenizer(expression, operators, undefined, undefined, groupedExpressions)
      .readTopLevelTokens(engine.options)
      .filter((token) => !TypeGuards.isHTMLToken(token))
      .map((token) => token.getText());
  } catch {
    return undefined;
  }
}
