"""The style of report.html, light and dark."""

from __future__ import annotations

STYLE = """
:root{--paper:#fbfbfa;--card:#fff;--ink:#1d2129;--muted:#5a626e;--rule:#e3e5e8;--good:#12663a;--bad:#b02323;
--idle:#535b67;--good-bg:#e3f4ea;--bad-bg:#fbe6e5;--idle-bg:#eceef1;
--k0:#3566c9;--k1:#d9722b;--k2:#2a8f83;--k3:#8a5fc0;--k4:#c7a11f;--k5:#c2527f;--k6:#7a8594}
@media(prefers-color-scheme:dark){:root{--paper:#14171c;--card:#1c2027;--ink:#e6e8eb;--muted:#99a2b0;--rule:#2f353f;
--good:#55c98a;--bad:#f08080;--idle:#9aa3b1;--good-bg:#17352a;--bad-bg:#40211f;--idle-bg:#292e37;
--k0:#6f9bf0;--k1:#f0985a;--k2:#4fbfb1;--k3:#b08be0;--k4:#dcbf55;--k5:#e07ba5;--k6:#9aa6b6}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1400px;padding:28px 24px 40px;background:var(--paper);color:var(--ink);
font:15px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:26px;margin:0 0 8px;font-weight:650}h1 em{font-style:normal;margin-left:6px}
h2{font-size:18px;margin:0 0 4px;font-weight:620}h3{font-size:14px;margin:0 0 6px;color:var(--muted);font-weight:600}
em.ok{color:var(--good)}em.failed{color:var(--bad)}em.skipped{color:var(--idle)}
header{display:flex;gap:24px;justify-content:space-between;align-items:flex-start;flex-wrap:wrap;margin-bottom:22px}
.facts{list-style:none;margin:0;padding:0;display:flex;flex-wrap:wrap;gap:2px 18px;color:var(--muted);max-width:900px}
.partial{margin:10px 0 0;padding:8px 12px;border-radius:8px;background:var(--bad-bg);color:var(--bad)}
.counts{display:flex;gap:10px}.count{padding:8px 18px;border-radius:10px;text-align:center;min-width:84px}
.count b{display:block;font-size:26px;line-height:1.15;font-variant-numeric:tabular-nums}.count span{font-size:13px}
.count.ok{background:var(--good-bg);color:var(--good)}.count.failed{background:var(--bad-bg);color:var(--bad)}
.count.skipped{background:var(--idle-bg);color:var(--idle)}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(560px,100%),1fr));gap:18px;margin-bottom:26px}
figure,.cells,.whole{margin:0;background:var(--card);border:1px solid var(--rule);border-radius:12px;
padding:18px 20px}
.cells,.whole{margin-bottom:22px}
figcaption p{margin:0 0 10px;color:var(--muted);font-size:14px}.none{color:var(--muted)}
.drawing{overflow:auto;max-height:34rem}
svg{width:100%;min-width:540px;height:auto;display:block;font-size:12px}svg text{fill:var(--ink)}
svg .tick{fill:var(--muted);font-size:11px}
svg .grid{stroke:var(--rule);stroke-width:1}svg .line{fill:none;stroke-width:2;stroke-linejoin:round}
svg rect.k0{fill:var(--k0)}svg rect.k1{fill:var(--k1)}svg rect.k2{fill:var(--k2)}svg rect.k3{fill:var(--k3)}
svg rect.k4{fill:var(--k4)}svg rect.k5{fill:var(--k5)}svg rect.k6{fill:var(--k6)}
svg .line.k0{stroke:var(--k0)}svg .line.k1{stroke:var(--k1)}svg .line.k2{stroke:var(--k2)}
svg .line.k3{stroke:var(--k3)}
svg .line.k4{stroke:var(--k4)}svg .line.k5{stroke:var(--k5)}svg .line.k6{stroke:var(--k6)}
svg .dot.k0{fill:var(--k0)}svg .dot.k1{fill:var(--k1)}svg .dot.k2{fill:var(--k2)}svg .dot.k3{fill:var(--k3)}
svg .dot.k4{fill:var(--k4)}svg .dot.k5{fill:var(--k5)}svg .dot.k6{fill:var(--k6)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:2px 14px;margin:0 0 10px;padding:0;font-size:13px;
color:var(--muted)}
.legend i{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:6px}
i.k0{background:var(--k0)}i.k1{background:var(--k1)}i.k2{background:var(--k2)}i.k3{background:var(--k3)}
i.k4{background:var(--k4)}i.k5{background:var(--k5)}i.k6{background:var(--k6)}
.cells>input{position:absolute;opacity:0;pointer-events:none}
.choice{display:flex;flex-wrap:wrap;gap:6px;margin:6px 0}
.choice label{border:1px solid var(--rule);border-radius:99px;padding:2px 12px;cursor:pointer;font-size:14px}
.choice small{opacity:.7}
.wide{overflow-x:auto}.tall{max-height:24rem;overflow:auto}.tall td{white-space:nowrap}
.tall td.long{white-space:normal;min-width:16rem}.tall thead th{position:sticky;top:0;background:var(--card)}
.drawing:focus-visible,.wide:focus-visible{outline:2px solid var(--k0);outline-offset:2px}
.unseen{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
table{border-collapse:collapse;width:100%;font-size:14px}
th{text-align:left;color:var(--muted);font-weight:550;font-size:13px;padding:6px 10px 6px 0;
border-bottom:1px solid var(--rule);
white-space:nowrap}
td{padding:6px 10px 6px 0;border-bottom:1px solid var(--rule);vertical-align:top}
td p{margin:2px 0 0;font-size:13px;color:var(--muted);overflow-wrap:anywhere}.failed td p.why{color:var(--bad)}
td.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
code{font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:nowrap}
.matrix th:nth-child(n+4){text-align:right}
.sign span{display:inline-block;width:22px;height:22px;line-height:22px;text-align:center;border-radius:6px;
font-weight:700}
tr.ok .sign span{background:var(--good-bg);color:var(--good)}
tr.failed .sign span{background:var(--bad-bg);color:var(--bad)}
tr.skipped .sign span{background:var(--idle-bg);color:var(--idle)}
.whole .grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(520px,100%),1fr));gap:20px 32px;
margin-top:10px}.part{min-width:0}.part.broad{grid-column:1/-1}.part .none{margin:6px 0 0;font-size:13px}
footer{color:var(--muted);font-size:13px}
@media(max-width:720px){body{padding:18px 12px 32px}figure,.cells,.whole{padding:14px}
.matrix thead{position:absolute;clip-path:inset(50%)}.matrix,.matrix tbody{display:block}
.matrix tr{display:grid;grid-template-columns:30px 1fr;padding:8px 0;border-bottom:1px solid var(--rule)}
.matrix td{border:0;padding:0;grid-column:2}.matrix td.sign{grid-column:1;grid-row:1/9}
.matrix code{white-space:normal;overflow-wrap:anywhere}.matrix td.n{text-align:left;font-size:13px;color:var(--muted)}
.matrix td.n:empty{display:none}.matrix td.n::before{content:attr(data-is) " "}}
@media print{.tall,.drawing{max-height:none}.filters{display:none}figure,.cells,.whole{break-inside:avoid-page}}
"""
