/** A log that was rewritten differs at every event, and the first findings show the kind of the change. */
const mostFindings = 1_000;

/** The first findings of a verification, and the number of the others. */
export class Findings<Finding> {
  readonly kept: Finding[] = [];
  /** An event that differs in two ways may count twice. */
  more = 0;

  add(finding: Finding): void {
    if (this.kept.length < mostFindings) this.kept.push(finding);
    else this.more += 1;
  }
}

/** Of a report, those that it does not hold included. */
export const countFindings = ({
  findings,
  moreFindings,
}: {
  readonly findings: readonly unknown[];
  readonly moreFindings: number;
}): number => findings.length + moreFindings;
