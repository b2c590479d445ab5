import { ids, type Answered, type Flocks } from './journey.ts';
import type { Sinks } from './sinks.ts';
import { allowanceOf, storedInPlain } from './stored-in-plain.ts';
import type { Planted } from './canaries.ts';

const told = (planted: Planted | undefined): string => {
  if (!planted) return 'one of many';
  const { operation, place, entrance, caller, status } = planted;
  return `${operation} ${place}, by ${entrance}, ${caller}, answered ${status ?? 'nothing'}`;
};

/** The log, where it is shown and where it is stored. */
const isLog = (sink: string): boolean => /^(rm_log(_summary)?\.|GET \/logs)/.test(sink);
/** The server's statistics hold copies of table values, so the same rules apply. */
const isTable = (sink: string): boolean => /^(event_store|rm_\w+|pg_catalog)\./.test(sink);

/** Answered 2xx, by an asynchronous outcome, or 5xx: that is also the answer to a write that is stored but not confirmed in time. */
const maySucceed = ({ status }: Planted): boolean =>
  status === undefined || (status >= 200 && status < 300) || status >= 500;

function isAllowed(sink: string, planted: Planted | undefined): boolean {
  const allowance = planted && allowanceOf(planted.operation, planted.place);
  if (!planted || !allowance || !maySucceed(planted)) return false;
  return isLog(sink) ? allowance.isLogged === true : isTable(sink) || allowance.isLogged === true;
}

/** Each leak once: the canary and the place where it was found. */
export function leaksIn(sinks: Sinks, { hidden, open }: Flocks): string[] {
  const leaks = new Set<string>();
  for (const [sink, text] of sinks) {
    for (const { planted, form } of hidden.in(text)) leaks.add(`${sink}: ${told(planted)}; as ${form}`);
    for (const { planted, form } of open.in(text))
      if (!isAllowed(sink, planted)) leaks.add(`${sink}: ${told(planted)}; as ${form}`);
  }
  return [...leaks];
}

/** The places where plain text may be stored and at which none was found. */
export function allowedInVain(sinks: Sinks, { open }: Flocks): string[] {
  const found = new Set<string>();
  for (const [sink, text] of sinks)
    if (isTable(sink))
      for (const { planted } of open.in(text))
        if (planted) found.add(`${planted.operation} ${planted.place}`);
  return ids
    .flatMap((id) =>
      (storedInPlain[id] ?? []).flatMap(({ places }) => places.map((place) => `${id} ${place}`)),
    )
    .filter((place) => !found.has(place));
}

/** An error may quote to its caller: the path, names of fields, and the id of a missing token in the arguments. */
const isQuotable = ({ operation, place }: Planted): boolean =>
  place.startsWith('path') ||
  place.endsWith(' name') ||
  (operation === 'react' && place.startsWith('body.args'));

/** Canaries in answers of other requests' errors, or quoted without need. */
export function quotesIn(answered: readonly Answered[], { hidden, open }: Flocks): string[] {
  const quotes = new Set<string>();
  for (const { planted: own, operation, caller, status, text } of answered) {
    if (status < 400) continue;
    for (const { planted } of [...hidden.in(text), ...open.in(text)])
      if (!planted || !own.includes(planted) || !isQuotable(planted))
        quotes.add(`${operation} answered ${status} to ${caller}: ${told(planted)}`);
  }
  return [...quotes];
}
