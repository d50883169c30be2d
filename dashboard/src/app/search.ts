/** Finds entries of the palette. Pure. */

export interface Searchable {
  readonly title: string;
  readonly words?: string | undefined;
}

/** How well an entry fits; 0 if it does not. Every word of the query must be found. */
export function score(entry: Searchable, query: string): number {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return 1;
  const title = entry.title.toLowerCase();
  const more = (entry.words ?? "").toLowerCase();
  let sum = 0;
  for (const word of words) {
    const points = wordScore(title, word) * 2 || wordScore(more, word);
    if (points === 0) return 0;
    sum += points;
  }
  return sum / words.length;
}

function wordScore(text: string, word: string): number {
  const at = text.indexOf(word);
  if (at === 0) return 4;
  if (at > 0) return /[\s/.:_-]/.test(text[at - 1] ?? "") ? 3 : 2;
  return word.length > 2 && isSubsequence(text, word) ? 1 : 0;
}

function isSubsequence(text: string, word: string): boolean {
  let at = 0;
  for (const letter of text) if (letter === word[at]) at += 1;
  return at === word.length;
}

/** The entries that fit, the best first, at most `limit`. */
export function search<T extends Searchable>(
  entries: readonly T[],
  query: string,
  limit: number,
): T[] {
  return entries
    .map((entry, index) => ({ entry, index, points: score(entry, query) }))
    .filter(({ points }) => points > 0)
    .sort((a, b) => b.points - a.points || a.index - b.index)
    .slice(0, limit)
    .map(({ entry }) => entry);
}
