/*
 * The order of search results. Sphinx shows only pages that have every word of a query, whatever their place on the
 * page. Here a page may lack words: rare words count more than common ones, and words in a title more than in a
 * heading, in the page's line of the index, or in its text. Index, stemmer and the list of results are Sphinx's.
 */
"use strict";

const WEIGHT = { title: 8, words: 5, heading: 4, text: 1 };

// Pages that mention everything, and pages for contributors, come after those that explain it.
const LESS = [[/^(docs\/adr|api)\//, 0.4], [/^(CHANGELOG|ARCHITECTURE|CONTRIBUTING|docs\/index|benchmarks|examples)/, 0.3],
  [/^README/, 0.5], [/^docs\/reference\//, 0.9]];

// What readers call things, from other libraries or everyday speech; each also looks for these words.
const SAME = {
  beat: "schedule", cron: "schedule", crontab: "schedule", periodic: "schedule", recurring: "schedule", nightly: "schedule",
  countdown: "delay", eta: "delay", later: "delay",
  duplicate: "deduplicate", duplicates: "deduplicate", unique: "deduplicate", idempotency: "deduplicate", twice: "deduplicate",
  chain: "flow", chord: "flow", dag: "flow", dependencies: "flow", pipeline: "flow", workflow: "flow",
  approve: "approval", approval: "signal", human: "approval", callback: "signal",
  checkpoint: "step", resume: "step", replay: "step",
  env: "setting", environment: "setting", variables: "setting", configuration: "setting", configure: "setting", options: "setting",
  throttle: "rate", throttling: "rate", parallel: "concurrency", simultaneously: "concurrency",
  stop: "cancel", abort: "cancel", kill: "cancel", timeout: "time", timeouts: "time",
  delete: "keep", purge: "keep", prune: "keep", cleanup: "keep", retention: "keep", old: "keep",
  stuck: "explain", pending: "explain", waiting: "explain",
  customer: "tenant", customers: "tenant", multitenant: "tenant",
  token: "stream", llm: "stream", tokens: "stream", progress: "stream",
  login: "protect", password: "protect", auth: "protect", authentication: "protect", authorization: "protect",
  ui: "dashboard", monitoring: "monitor", grafana: "prometheus", tracing: "opentelemetry",
  docker: "production", kubernetes: "production", k8s: "production", systemd: "production", deployment: "deploy",
  down: "unavailable", outage: "unavailable", offline: "unavailable", unreachable: "unavailable", database: "store",
  gpu: "capabilities", benchmark: "performance", benchmarks: "performance", fast: "performance", speed: "performance",
  celery: "comparison", rq: "comparison", huey: "comparison", temporal: "comparison",
  dlq: "failed", dead: "failed", backoff: "retries", retry: "retries", segfault: "crash", unittest: "test", pytest: "test",
  file: "artifact", files: "artifact", upload: "artifact", migrate: "migration", postgresql: "postgres",
};

// The summaries come from other files, which a browser does not read where the site is opened from a disk.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

Search._performSearch = (query, words, excluded, highlighted, objectTerms) => {
  const index = Search._index;
  const stemmer = new Stemmer();
  const stems = (text) => splitQuery(text.toLowerCase()).filter((word) => !stopwords.has(word)).map((word) => stemmer.stemWord(word));
  const asked = [...words];
  const same = new Map();
  for (const word of splitQuery(query.toLowerCase())) {
    if (!Object.hasOwn(SAME, word)) continue;
    // Sphinx leaves out common words such as "down"; what they stand for is searched all the same.
    if (stopwords.has(word)) asked.push(stemmer.stemWord(SAME[word]));
    else same.set(stemmer.stemWord(word), stemmer.stemWord(SAME[word]));
  }
  const list = (found) => (found === undefined ? [] : Array.isArray(found) ? found : [found]);
  const count = index.docnames.length;
  const placesOf = (terms, word) => {
    if (Object.hasOwn(terms, word)) return list(terms[word]);
    // Half a word finds the whole one.
    return word.length < 3 ? [] : Object.keys(terms).filter((term) => term.startsWith(word)).flatMap((term) => list(terms[term]));
  };
  const about = index.docnames.map((name) => new Set(stems(PAGE_WORDS[name] ?? "")));
  const titles = index.titles.map((title) => new Set(stems(title)));
  const headings = index.docnames.map(() => []);
  for (const [heading, places] of Object.entries(index.alltitles)) {
    for (const [page, id] of places) if (id !== null) headings[page].push([heading, id, new Set(stems(heading))]);
  }
  const has = (set, word) => set.has(word) || (word.length > 3 && [...set].some((one) => one.startsWith(word)));

  const worth = (word) => {
    const pages = new Set([...placesOf(index.terms, word), ...placesOf(index.titleterms, word)]);
    return [pages, Math.log(1 + count / Math.max(pages.size, 1))];
  };
  const scores = new Map();
  const add = (word, share, counts) => {
    const [pages, rarity] = worth(word);
    const places = new Set(pages);
    about.forEach((set, page) => { if (has(set, word)) places.add(page); });
    for (const page of places) {
      const of = has(titles[page], word) ? WEIGHT.title : has(about[page], word) ? WEIGHT.words
        : headings[page].some(([, , set]) => has(set, word)) ? WEIGHT.heading : WEIGHT.text;
      const score = scores.get(page) ?? { points: 0, matched: new Set() };
      score.points += share * rarity * of;
      score.matched.add(counts);
      scores.set(page, score);
    }
  };
  for (const word of asked) {
    add(word, 1, word);
    if (same.has(word)) add(same.get(word), 0.8, word);
  }
  for (const word of excluded) for (const page of worth(word)[0]) scores.delete(page);

  const results = [...scores].map(([page, { points, matched }]) => {
    const name = index.docnames[page];
    const less = LESS.reduce((so, [pattern, factor]) => (pattern.test(name) ? so * factor : so), 1);
    // The heading that has more of the words than the title does.
    const matches = (set) => asked.filter((word) => has(set, word)).length;
    const best = headings[page].reduce((so, one) => (matches(one[2]) > matches(so[2]) ? one : so), ["", "", titles[page]]);
    // A title or heading with several of the words is probably about just that.
    const together = matches(best[2]) > 1 ? 1 + matches(best[2]) / asked.length : 1;
    const score = points * (matched.size / asked.length) ** 2 * less * together;
    const title = best[0] ? `${index.titles[page]} › ${best[0]}` : index.titles[page];
    return [name, title, best[1] ? `#${best[1]}` : "", null, score, index.filenames[page], SearchResultKind.title];
  });
  // A name of the API: first if it is typed as in a program, otherwise after the pages that explain it.
  const top = Math.max(1, ...results.map((result) => result[4]));
  const isName = /[._A-Z]/.test(query);
  const objects = /^[\w.]+$/.test(query.trim()) ? Search.performObjectSearch(query.toLowerCase().trim(), objectTerms) : [];
  results.push(...objects.map((result) => result.with(4, (top * result[4]) / (isName ? 10 : 20))));
  _removeChildren(document.getElementById("search-progress"));
  return results.filter((result) => result[4] > top / 20).sort((a, b) => a[4] - b[4] || (a[1] < b[1] ? 1 : -1));
};
